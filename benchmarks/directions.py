"""Bases that read one way or both ways, at equal device time: causal, masked, causal+masked, causal then masked.

    python benchmarks/directions.py prepare IMDB_FOLDER ATIS_FOLDER DATA         # on any CPU, once
    python benchmarks/directions.py run DATA OUT --seconds 30 --minutes 8        # on a GPU: trains, prints the table
    python benchmarks/directions.py run DATA OUT --attention causal --names ...  # fine-tuned with causal attention
    python benchmarks/directions.py table OUT                                    # prints the table again
    python benchmarks/directions.py prepare --scale cpu IMDB_FOLDER ATIS_FOLDER DATA  # the same for a laptop
    python benchmarks/directions.py run DATA OUT --scale cpu --seconds 600 --minutes 120 --workers 2

A speed test measures how many steps of each objective fit into `--seconds` on the idle device; the bases are then
trained for that many steps, several in parallel. They are fine-tuned with 100 to 6,400 reviews of IMDb's train and
scored on 3,000 other reviews of train, and fine-tuned as taggers on ATIS's train and scored on its validation file. No
test set is read. `--attention` fine-tunes with another attention direction than the default (then without ATIS).

OUT gets steps.json, results.jsonl and the bases. Finished lines are not run again, so the same command continues where
the clock stopped it; a base is trained again only if its folder is missing and a fine-tuning of it too. `--scale tiny`
tries everything on a CPU within minutes.
"""

import json
import random
import shutil
import tempfile
import time
import traceback
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, stdev
from typing import Any, Literal

from choose import warm_up
from cyclopts import App

app = App(help=__doc__)
EPOCHS = {6_400: 4, 1_600: 10}
"""Fewer epochs than by default, to save device time; equal for all bases."""
ATIS = 0
"""Stands for the number of labels of a fine-tuning on ATIS, which uses all."""
ATIS_TRAINING = {"num_train_epochs": 8, "batch_size": 32}
T_975 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262)
"""Student's t for a 95 % interval with 1 to 9 degrees of freedom."""
ScaleName = Literal["gpu", "cpu", "tiny"]


@dataclass(frozen=True)
class Scale:
    """How large the bases and the data are."""

    model: dict[str, Any]
    max_length: int
    vocab_size: int
    batch_size: int = 32
    num_pool: int = 8_000
    num_scored: int = 3_000
    num_documents: int | None = None
    """At most so many documents of the corpus, and tagged sentences per part."""
    labels: tuple[int, ...] = (6_400, 1_600, 400, 100)
    """The longest fine-tunings first."""


SCALES: dict[ScaleName, Scale] = {
    "gpu": Scale({"preset": "small"}, max_length=512, vocab_size=16_000),
    "cpu": Scale(
        {"num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 4, "intermediate_size": 512},
        max_length=256, vocab_size=8_000,
    ),
    "tiny": Scale(
        {"num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64},
        max_length=48, vocab_size=1_000, num_pool=300, num_scored=100, num_documents=400, labels=(60, 40),
    ),
}  # fmt: skip
TINY_STEPS = 24
Result = dict[str, Any]
Phase = tuple[str, float, dict[str, dict[str, Any]]]
"""An objective, its share of the device time, and the settings of pre-training that it changes."""
TRANSFORM: dict[str, dict[str, Any]] = {"model": {"lm_head_transform": "gelu"}}
BASES: dict[str, tuple[Phase, ...]] = {
    "causal": (("causal", 1.0, {}),),
    "masked": (("masked", 1.0, {}),),
    "causal+masked": (("causal+masked", 1.0, {}),),
    "causal then masked": (("causal", 0.5, {}), ("masked", 0.5, {})),
    "causal+masked, 15 of 16 masked": (("causal+masked", 1.0, {"masking": {"masked_share": 0.9375}}),),
    "masked, transform": (("masked", 1.0, TRANSFORM),),
    "causal+masked, transform": (("causal+masked", 1.0, TRANSFORM),),
    "causal then causal+masked": (("causal", 0.5, {}), ("causal+masked", 0.5, {})),
    "causal+masked, 1 of 4 masked": (("causal+masked", 1.0, {"masking": {"masked_share": 0.25}}),),
    "causal+masked, 1 of 8 masked": (("causal+masked", 1.0, {"masking": {"masked_share": 0.125}}),),
}
MAIN = "causal;masked;causal+masked;causal then masked"


@dataclass(frozen=True)
class Job:
    """A base (`labels` is None) or one fine-tuning of it."""

    base: str
    data: str
    out: str
    labels: int | None = None
    seed: int = 1
    scale: ScaleName = "gpu"
    device: str = "auto"
    attention: str | None = None
    """Attention direction of the fine-tuning; None: the default of the base."""

    @property
    def name(self) -> str:
        """Name of a row of the table: the base and how it is fine-tuned."""
        return f"{self.base}, fine-tuned {self.attention}" if self.attention else self.base

    @property
    def key(self) -> tuple[str, int | None, int]:
        """What a line of results.jsonl is found by."""
        return self.name, self.labels, self.seed

    @property
    def folder(self) -> Path:
        """The run folder of the base."""
        return Path(self.out) / self.base.replace(" ", "-").replace(",", "")


@app.command
def prepare(imdb: Path, atis: Path, data: Path, /, *, scale: ScaleName = "gpu") -> None:
    """Write the labelled reviews, the tagged sentences, and a token store of the unlabelled reviews."""
    from imdb import headswap, key_of, read, write  # it needs packages that `run` does not

    data.mkdir(parents=True, exist_ok=True)
    size = SCALES[scale]
    rows = list({key_of(row["text"]): row for row in read(imdb / "train.jsonl.gz")}.values())
    chosen = random.Random(0).sample(rows, size.num_pool + size.num_scored)
    for name, part in (("pool", chosen[: size.num_pool]), ("scored", chosen[size.num_pool :])):
        write(data / f"{name}.jsonl.gz", [{"text": row["text"], "label": str(row["label"])} for row in part])
    known = {key_of(row["text"]) for row in chosen}
    texts = {key_of(row["text"]): row["text"] for row in read(imdb / "unsup.jsonl.gz")}
    corpus = [text for key, text in texts.items() if key not in known][: size.num_documents]
    with tempfile.TemporaryDirectory() as folder:  # DATA has the store instead of the texts
        file = Path(folder) / "corpus.jsonl.gz"
        write(file, [{"text": text} for text in corpus])
        headswap("tokenizer", file, "--vocab-size", size.vocab_size, "--out", data / "tokenizer.json")
        headswap("store", file, "--tokenizer", data / "tokenizer.json", "--out", data / "store")
    tagged = {part: read(atis / f"{part}.jsonl.gz")[: size.num_documents] for part in ("train", "valid")}
    tags = {tag for row in tagged["train"] for tag in row["tags"]}
    for part, sentences in tagged.items():
        kept = [{"tokens": row["tokens"], "tags": row["tags"]} for row in sentences if tags.issuperset(row["tags"])]
        print(f"ATIS {part}: {len(kept)} of {len(sentences)} sentences have only tags of train")
        write(data / f"atis-{part}.jsonl.gz", kept)


@app.command
def run(
    data: Path,
    out: Path,
    /,
    *,
    seconds: float = 35,
    minutes: float = 8,
    workers: int = 14,
    seeds: int = 5,
    names: str = MAIN,
    labels: str = "",
    attention: Literal["causal", "bidirectional"] | None = None,
    scale: ScaleName = "gpu",
    device: str = "auto",
) -> None:
    """Train the bases in `names` (separated by ;) and fine-tune them until the clock stops it, then print the table.

    `labels`: numbers of labels, separated by commas, where not all are wanted; 0 stands for ATIS.
    """
    deadline = time.monotonic() + 60 * minutes
    out.mkdir(parents=True, exist_ok=True)
    chosen = [name.strip() for name in names.split(";")]
    if unknown := [name for name in chosen if name not in BASES]:
        raise SystemExit(f"{unknown[0]} is no base of this script: {'; '.join(BASES)}")
    done = {(line["base"], line["labels"], line["seed"]) for line in read_results(out) if "error" not in line}
    budgets = tuple(map(int, labels.split(","))) if labels else (*SCALES[scale].labels, ATIS)
    budgets = tuple(size for size in budgets if size != ATIS or attention is None)
    of_base = {
        name: [
            job
            for seed in range(1, seeds + 1)
            for size in budgets
            if (job := Job(name, str(data), str(out), size, seed, scale, device, attention)).key not in done
        ]
        for name in chosen
    }
    bases = [
        Job(name, str(data), str(out), scale=scale, device=device, attention=attention)
        for name, jobs in of_base.items()
        if jobs
    ]
    print(f"{sum(map(len, of_base.values()))} fine-tunings of {len(bases)} bases to run", flush=True)
    with (out / "results.jsonl").open("a", encoding="utf-8") as file:
        for result in results_of(bases, of_base, seconds, workers, deadline):
            file.write(json.dumps(result) + "\n")
            file.flush()
            if "error" in result:
                print(f"FAILED {result['base']} {result['labels']}: {result['error'].strip().splitlines()[-1]}")
    table(out)


def results_of(
    bases: list[Job], of_base: dict[str, list[Job]], seconds: float, workers: int, deadline: float
) -> Iterator[Result]:
    """The result of each job as it ends; a fine-tuning starts when its base is ready, none after the deadline."""
    pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=warm_up)
    running: dict[Future[Result], Job] = {}
    ready = list(bases)
    try:
        steps = pool.submit(measured_steps, bases, seconds).result() if bases else {}
        while ready or running:
            while ready and len(running) < workers and time.monotonic() < deadline:
                job = ready.pop(0)
                running[pool.submit(result_of, job, steps)] = job
            if not running:
                print(f"The clock stopped {len(ready)} jobs.", flush=True)
                return
            ended, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in ended:
                job = running.pop(future)
                result = outcome(job, future)
                if job.labels is None and "error" not in result:
                    ready += of_base[job.base]
                yield result
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def outcome(job: Job, future: Future[Result]) -> Result:
    """The result of a job or its error."""
    head = {"base": job.name, "labels": job.labels, "seed": job.seed}
    try:
        return head | future.result()
    except Exception as problem:
        return head | {"error": "".join(traceback.format_exception(problem))}


def result_of(job: Job, steps: dict[str, int]) -> Result:
    """Train a base, or fine-tune and score; in a worker."""
    started = time.perf_counter()
    result = train_base(job, steps) if job.labels is None else finetune_and_score(job)
    return result | {"wall": round(time.perf_counter() - started, 2)}


def measured_steps(jobs: list[Job], seconds: float) -> dict[str, int]:
    """How many steps of each phase fit into the device time; measured once, on the idle device."""
    file = Path(jobs[0].out) / "steps.json"
    steps = json.loads(file.read_text()) if file.exists() else {}
    for job in jobs:
        for objective, _, changes in BASES[job.base]:
            key = phase_key(objective, changes)
            if key not in steps:
                found = probed(job, objective, changes, seconds)
                steps[key] = min(found, TINY_STEPS) if job.scale == "tiny" else found
                print(f"{key}: {steps[key]} steps in {seconds:g} s", flush=True)
    file.write_text(json.dumps(steps))
    return steps


def phase_key(objective: str, changes: dict[str, dict[str, Any]]) -> str:
    return f"{objective} {json.dumps(changes)}"


def sections_of(job: Job, objective: str, changes: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Sections of the recipe of pre-training."""
    size = SCALES[job.scale]
    training = {"objective": objective, "seed": 1, "max_length": size.max_length, "batch_size": size.batch_size}
    sections: dict[str, dict[str, Any]] = {
        "corpus": {"corpus": (str(Path(job.data) / "store"),)},
        "model": size.model,
        "training": training,
        "machine": {"threads": 1, "device": job.device},
    }
    for name, values in changes.items():
        sections[name] = {**sections.get(name, {}), **values}
    return sections


def probed(job: Job, objective: str, changes: dict[str, dict[str, Any]], seconds: float) -> int:
    """The speed test of `--max-minutes`, without the run."""
    from headswap.core.settings import load_recipe
    from headswap.defaults.pretraining import PretrainingFacts, resolve_pretraining
    from headswap.pretraining.config import PretrainRecipe
    from headswap.pretraining.corpus import CorpusParts
    from headswap.pretraining.starting_point import new_base
    from headswap.pretraining.time_budget import probed_steps
    from headswap.training.device import Machine
    from headswap.training.distributed import Processes

    recipe = load_recipe(PretrainRecipe, None, sections_of(job, objective, changes))
    start, machine = new_base(recipe, recipe.corpus.corpus), Machine(recipe.machine)
    shape = start.model.shape.base
    machine.resolve_precision(shape.hidden_size)
    length = recipe.training.max_length or shape.max_position_embeddings
    parts = CorpusParts(start.store, start.objective, recipe.training, max_length=length)
    facts = PretrainingFacts(shape.hidden_size, length, is_new=True, is_causal=start.objective.is_likelihood)
    settings = resolve_pretraining(recipe, facts).training
    return probed_steps(seconds / 60, start, parts, settings=settings, machine=machine, processes=Processes())


def train_base(job: Job, steps: dict[str, int]) -> Result:
    """Pre-train a base and, if it has a second phase, adapt it; the last phase is in `job.folder`."""
    from headswap.pretraining.pretrain import adapt, pretrain

    phases, found, tokens, before = BASES[job.base], {}, 0, None
    for number, (objective, share, changes) in enumerate(phases):
        is_last = number == len(phases) - 1
        folder = job.folder if is_last else job.folder.with_name(f"{job.folder.name}-phase{number}")
        sections = sections_of(job, objective, changes)
        sections["training"]["max_steps"] = max(1, round(share * steps[phase_key(objective, changes)]))
        if before is None:
            pretrain(out=folder, sections=sections, resume=True)
        else:
            sections |= {"model": {"base": str(before)}}
            adapt(out=folder, sections=sections, resume=True)
        found = json.loads((folder / "result.json").read_text())
        tokens, before = tokens + found["tokens"], folder
    kept = {name: found[name] for name in ("loss", "masked_loss", "causal_loss", "epochs", "device") if name in found}
    return {**kept, "steps": found["steps"], "tokens": tokens}


def finetune_and_score(job: Job) -> Result:
    """Fine-tune a base on reviews or on ATIS, and score what was not used."""
    from headswap.finetuning.finetune import finetune

    data, training, is_tiny = Path(job.data), {"seed": job.seed}, job.scale == "tiny"
    if job.labels == ATIS:
        training |= {"num_train_epochs": 1} if is_tiny else ATIS_TRAINING
        files = {"task": "tag", "train": str(data / "atis-train.jsonl.gz"), "test": str(data / "atis-valid.jsonl.gz")}
    else:
        training |= {"max_steps": 4} if is_tiny else {}
        training |= {"num_train_epochs": EPOCHS[job.labels]} if job.labels in EPOCHS else {}
        files = {"train": str(data / "pool.jsonl.gz"), "test": str(data / "scored.jsonl.gz"), "num_train": job.labels}
    sections: dict[str, Any] = {
        "data": files, "model": {"base": str(job.folder), "direction": job.attention}, "training": training,
        "machine": {"threads": 1, "device": job.device},
    }  # fmt: skip
    folder = Path(tempfile.mkdtemp(prefix="directions-"))
    try:
        finetune(out=folder / "run", sections=sections, with_baselines=False, reloads_in_fresh_process=False)
        result = json.loads((folder / "run" / "result.json").read_text())
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    metric = "f1" if job.labels == ATIS else "accuracy"
    return {"score": result["test"][metric], "best_epoch": result.get("best_epoch"), "seconds": result["seconds"]}


@app.command
def table(out: Path, /) -> None:
    """One row per base: its training, mean accuracy with 95 % interval per number of labels, and F1 on ATIS."""
    lines = [line for line in read_results(out) if "error" not in line]
    bases = {line["base"]: line for line in lines if line["labels"] is None}
    scores: dict[tuple[str, int], dict[int, float]] = {}
    for line in lines:
        if line["labels"] is not None:
            scores.setdefault((line["base"], line["labels"]), {})[line["seed"]] = line["score"]
    sizes = sorted({labels for _, labels in scores if labels != ATIS})
    columns = [*sizes, *([ATIS] if any(labels == ATIS for _, labels in scores) else [])]
    titles = [*(f"{size:,} labels" for size in sizes), *(["ATIS F1"] if ATIS in columns else [])]
    print(f"\n| base | M tokens | held-out loss | {' | '.join(titles)} |\n|---|---|---|{'---|' * len(columns)}")
    for name, base in bases.items():
        cells = [interval(list(scores.get((name, column), {}).values())) for column in columns]
        both = f" (masked {base['masked_loss']:.3f}, causal {base['causal_loss']:.3f})" if "masked_loss" in base else ""
        print(f"| {name} | {base['tokens'] / 1e6:.1f} | {base['loss']:.3f}{both} | {' | '.join(cells)} |")
    for name in bases:
        if name != "causal" and "causal" in bases:
            cells = [difference(scores.get((name, one), {}), scores.get(("causal", one), {})) for one in columns]
            print(f"| {name} - causal, points | | | {' | '.join(cells)} |", flush=True)


def interval(values: list[float], factor: float = 1.0, digits: int = 3) -> str:
    """The mean, with its 95 % interval over seeds where there are at least 3."""
    if not values:
        return ""
    middle, count = factor * mean(values), len(values)
    if count < 3:
        return f"{middle:.{digits}f}"
    half = factor * T_975[count - 2] * stdev(values) / count**0.5
    return f"{middle:.{digits}f} ({middle - half:.{digits}f} to {middle + half:.{digits}f})"


def difference(ours: dict[int, float], theirs: dict[int, float]) -> str:
    """The mean difference in points, paired by seed."""
    return interval([ours[seed] - theirs[seed] for seed in sorted(ours.keys() & theirs.keys())], 100.0, 1)


def read_results(out: Path) -> list[Result]:
    file = out / "results.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


if __name__ == "__main__":
    app()
