"""Choose defaults of scratch and of adaptation on sets that no reported figure uses (trec, subj, clinc150).

    python benchmarks/choose.py run DATA OUT --minutes 8 --workers 8    # trains, then prints the table
    python benchmarks/choose.py run DATA OUT --round 2 ...              # methods: token dropout, heads, consistency
    python benchmarks/choose.py run DATA OUT --round 3 ...              # R-Drop, adversarial, cosine head, distillation
    python benchmarks/choose.py run DATA OUT --round 4 ...              # TF-IDF on the same rows, replaced tokens
    python benchmarks/choose.py run DATA OUT --round 5 ...              # first weights, similarity and norm of heads
    python benchmarks/choose.py run DATA OUT --round 6 ...              # terms of the loss, directions, distillation
    python benchmarks/choose.py table OUT                               # prints the table again

DATA contains NAME/train.csv.gz (or .csv) with the columns text and label for each set. 1,500 rows of train are scored;
the labels of a run are drawn from the others, and a base is adapted to the texts of the others. test and valid are not
read. clinc77 has the first 77 of the 150 classes of clinc150, in alphabetical order. OUT gets results.jsonl only: one
line per fine-tuning and per adaptation. Finished lines are not run again, so the same command continues where the clock
stopped it. Run folders and adapted bases are in --work and can be deleted.

Each worker is a process that keeps torch and its CUDA context. Without an installed base the one of this checkout is
used, so `PYTHONPATH=src` and headswap's dependencies are enough.
"""

import csv
import gzip
import json
import logging
import os
import random
import shutil
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from cyclopts import App

from headswap.data.config import ReadSettings
from headswap.tokens.cache import cached_tokenizer
from headswap.tokens.config import TokenizerSettings

app = App(help=__doc__)
BOX = Path(__file__).parent.parent / "bases/reviews-en-2/src/headswap_base_reviews_en_2/bundle"
SETS = {"trec": (100, 150, 1_000), "subj": (100, 150, 1_000), "clinc150": (150, 150, 1_000)}
"""Labels of scratch, labels of an adapted base, and the larger number of both; clinc150 has 150 classes."""
FEWER_CLASSES = {"clinc77": ("clinc150", 77)}
"""Sets that are the first classes of another one; they are only used where a setting names them."""
NUM_SCORED = 1_500
GRACE_SECONDS = 25
"""What started before the clock ran out may still finish within this time."""
SMALL_128 = {"num_hidden_layers": 2, "hidden_size": 128, "num_attention_heads": 4, "intermediate_size": 512}
SMALL_256 = {"num_hidden_layers": 2}
Result = dict[str, Any]


@dataclass(frozen=True)
class Setting:
    """One way to train: changes to the defaults of fine-tuning and, with `adapt`, of adaptation."""

    name: str
    model: dict[str, Any] = field(default_factory=dict)
    training: dict[str, Any] = field(default_factory=dict)
    adaptation: dict[str, Any] = field(default_factory=dict)
    head: dict[str, Any] = field(default_factory=dict)
    rate_factor: float = 1.0
    """Times the default learning rate of fine-tuning."""
    holds_out: bool = True
    """False: no validation set is held out, and the last epoch is kept."""
    base: str = "scratch"
    """scratch, box, or tfidf."""
    adapt: dict[str, Any] | None = None
    """Epochs of adaptation, and `rate_factor`: times the default learning rate of adaptation."""
    adapt_name: str = ""
    """Settings with the same name share their adapted bases."""
    labels: dict[str, tuple[int, ...]] | None = None
    """Labels per set, where they are not those of `SETS`."""
    consistency: dict[str, Any] | None = None
    """Settings of consistency training with the unlabelled texts of the set."""
    num_teachers: int = 0
    """Distillation: so many models of other seeds are trained on the same labels first."""
    directions: tuple[str, ...] = ()
    """Attention directions of the teachers, where they differ."""


def scratch(name: str, *, both: bool = False, rate: float = 1.0, holds_out: bool = True, **others: Any) -> Setting:
    """A setting of training from scratch; `both` means bidirectional attention with mean pooling."""
    training = {"num_train_epochs": others.pop("epochs")} if "epochs" in others else {}
    model = {"preset": "small", "direction": "bidirectional" if both else "causal", **others}
    return Setting(name, model=model, training=training, rate_factor=rate, holds_out=holds_out)


def adapted(epochs: float, rate: float) -> Setting:
    """The box, adapted to the texts of the set for so many epochs with so many times the default rate."""
    name = f"box, adapted {epochs:g} x{rate:g}"
    adapt = {"epochs": epochs, "rate_factor": rate, "load_best_model_at_end": False}
    return Setting(name, base="box", adapt=adapt, adapt_name=name)


def from_adapted(name: str, *, keeps_best: bool = False, **others: Any) -> Setting:
    """Other ways to fine-tune the box that was adapted for 30 epochs."""
    adapt = {"epochs": 30, "rate_factor": 1, "load_best_model_at_end": keeps_best}
    return Setting(name, base="box", adapt=adapt, adapt_name=f"adapted best={keeps_best}", **others)


def small(name: str, *, both: bool = True, pooling: str | None = None, tokens: float = 0, **others: Any) -> Setting:
    """A model of 2 layers of 128 from scratch on all labels."""
    setting = scratch(name, both=both, holds_out=False, **(SMALL_128 | others))
    training = {**setting.training, **({"token_dropout": tokens} if tokens else {})}
    return replace(setting, training=training, head={"pooling": pooling} if pooling else {})


def lever(name: str, *, is_adapted: bool = True, **others: Any) -> Setting:
    """Fine-tuning the box, adapted for 30 epochs or not, with the default head of today unless it is given."""
    others["adaptation"] = {"head_init": None, **others.get("adaptation", {})}
    others["head"] = {"head_similarity": None, **others.get("head", {})}
    return from_adapted(name, **others) if is_adapted else Setting(name, base="box", **others)


def term(name: str, **others: Any) -> Setting:
    """Fine-tuning the box, which is not adapted, on sets of 2, 6 and 77 classes, with the default head."""
    return lever(name, is_adapted=False, labels=VECTOR_SCALES, **others)


FEW = {"subj": (100,), "trec": (100,)}
MANY = {"clinc150": (150, 1_000, 3_000)}
CONSISTENT = {"num_train_epochs": 100}
TWICE = {"clinc150": (150, 1_000)}
FEW_CLASSES = {"trec": (150, 1_000), "subj": (150, 1_000)}
MANY_CLASSES = {"clinc77": (154, 1_000), "clinc150": (150, 1_000)}
VECTOR_SCALES = {"trec": (150, 1_000), "subj": (150, 1_000), "clinc77": (154, 1_000)}
AT_150 = {"trec": (150,), "subj": (150,), "clinc150": (150,)}


ROUNDS: dict[int, list[Setting]] = {
    1: [
        Setting("box", base="box"),
        *(adapted(epochs, 1) for epochs in (10, 30, 3)),
        scratch("scratch"),
        scratch("scratch x3", rate=3),
        scratch("scratch both", both=True),
        scratch("scratch both x3", both=True, rate=3),
        scratch("scratch both x3 2x128", both=True, rate=3, **SMALL_128),
        scratch("scratch x10", rate=10),
        scratch("scratch dropout .3", dropout=0.3),
        scratch("scratch 2x128", **SMALL_128),
        scratch("scratch 2x256", **SMALL_256),
        scratch("scratch all labels", holds_out=False),
        *(adapted(epochs, rate) for rate in (2, 0.5) for epochs in (10, 30, 3)),
        scratch("scratch both x3 2x256", both=True, rate=3, **SMALL_256),
        scratch("scratch both x10 2x128", both=True, rate=10, **SMALL_128),
        scratch("scratch both x3 2x128 dropout .3", both=True, rate=3, dropout=0.3, **SMALL_128),
        scratch("scratch both x3 2x128 all labels", both=True, rate=3, holds_out=False, **SMALL_128),
        scratch("scratch dropout 0", dropout=0.0),
        scratch("scratch both x3 dropout .3", both=True, rate=3, dropout=0.3),
        scratch("scratch both x3 2x256 dropout .3", both=True, rate=3, dropout=0.3, **SMALL_256),
        scratch("scratch both x3 all labels", both=True, rate=3, holds_out=False),
        scratch("scratch both x3 2x128 40 epochs", both=True, rate=3, epochs=40, **SMALL_128),
        adapted(100, 1),
        adapted(60, 2),
    ],
    2: [
        from_adapted("adapted"),
        small("small both"),
        small("small both tokens .15", tokens=0.15),
        from_adapted("adapted means", adaptation={"head_init": "class-means"}),
        from_adapted("adapted 60 epochs", training={"num_train_epochs": 60}, labels=MANY),
        from_adapted("adapted few", labels=FEW),
        from_adapted("adapted few 100 epochs", training=CONSISTENT, labels=FEW),
        from_adapted("consistency few", training=CONSISTENT, consistency={}, labels=FEW),
        small("small both tokens .3", tokens=0.3),
        small("small both x3 tokens .15", rate=3, tokens=0.15),
        from_adapted("adapted x3", rate_factor=3, labels=MANY),
        from_adapted("adapted means 60 epochs", adaptation={"head_init": "class-means"},
                     training={"num_train_epochs": 60}, labels=MANY),
        from_adapted("adapted head 3 epochs", adaptation={"head_epochs": 3}, labels=MANY),
        from_adapted("adapted cosine 16", head={"head_similarity": "cosine"}, labels=MANY),
        from_adapted("adapted all labels", holds_out=False),
        small("small causal tokens .15", both=False, tokens=0.15),
        small("small both mean+max tokens .15", pooling="mean+max", tokens=0.15),
        from_adapted("consistency few dropout .4", training=CONSISTENT, labels=FEW,
                     consistency={"consistency_token_dropout": 0.4}),
        from_adapted("consistency few .95", training=CONSISTENT, labels=FEW,
                     consistency={"consistency_threshold": 0.95}),
        from_adapted("adapted best loss", keeps_best=True),
        small("small both 40 epochs tokens .15", epochs=40, tokens=0.15),
        small("small both dropout .3 tokens .15", dropout=0.3, tokens=0.15),
        scratch("both all labels 2x256", both=True, holds_out=False, **SMALL_256),
        Setting("box means", base="box", adaptation={"head_init": "class-means"}, labels=MANY),
    ],
    3: [
        lever("adapted"),
        lever("box", is_adapted=False),
        lever("adapted R-Drop 1", training={"rdrop_alpha": 1.0}),
        lever("adapted adversarial .05", training={"adversarial_epsilon": 0.05}),
        lever("box dot", is_adapted=False, head={"head_similarity": "dot"}, labels=TWICE),
        lever("box random cosine", is_adapted=False, adaptation={"head_init": "random"}, labels=TWICE),
        lever("adapted dot", head={"head_similarity": "dot"}, labels=TWICE),
        lever("adapted cosine", head={"head_similarity": "cosine"}, labels=FEW_CLASSES),
        lever("adapted R-Drop 4", training={"rdrop_alpha": 4.0}),
        lever("adapted adversarial .2", training={"adversarial_epsilon": 0.2}),
        lever("box R-Drop 1", is_adapted=False, training={"rdrop_alpha": 1.0}),
        lever("box adversarial .05", is_adapted=False, training={"adversarial_epsilon": 0.05}),
        lever("adapted distilled", num_teachers=3),
        lever("adapted consistency", consistency={}, labels=AT_150),
        lever("adapted virtual adversarial .05", consistency={}, training={"adversarial_epsilon": 0.05}, labels=AT_150),
        lever("adapted R-Drop 1 adversarial .05", training={"rdrop_alpha": 1.0, "adversarial_epsilon": 0.05}),
    ],
    4: [
        Setting("tfidf", base="tfidf", labels={"clinc150": (150, 1_000, 3_000), "trec": (100,), "subj": (100,)}),
        lever("box few", is_adapted=False, labels=FEW),
        lever("box few, tokens left out .2", is_adapted=False, consistency={}, labels=FEW),
        lever("box few, replaced .2", is_adapted=False, labels=FEW,
              consistency={"consistency_token_dropout": 0.0, "consistency_replacement": 0.2}),
        lever("box few, replaced .4", is_adapted=False, labels=FEW,
              consistency={"consistency_token_dropout": 0.0, "consistency_replacement": 0.4}),
        lever("box few, left out .2 and replaced .2", is_adapted=False, labels=FEW,
              consistency={"consistency_replacement": 0.2}),
    ],
    5: [
        *(
            lever(f"box {init} {similarity}", is_adapted=False, labels=MANY_CLASSES,
                  head={"head_similarity": similarity}, adaptation={"head_init": init})
            for init, similarity in (("random", "dot"), ("class-means", "dot"), ("random", "cosine"),
                                     ("class-means", "cosine"), ("linear", "dot"))
        ),
        *(
            lever(f"box {init} few classes", is_adapted=False, labels=FEW_CLASSES, adaptation={"head_init": init})
            for init in ("random", "linear")
        ),
        *(
            lever(f"box norm {norm}", is_adapted=False, labels=VECTOR_SCALES, head={"head_norm": norm})
            for norm in ("none", "layer")
        ),
    ],
    6: [
        term("box"),
        term("box R-Drop 1", training={"rdrop_alpha": 1.0}),
        term("box adversarial .05", training={"adversarial_epsilon": 0.05}),
        term("box two directions distilled", num_teachers=2, directions=("causal", "bidirectional")),
        term("box two seeds distilled", num_teachers=2),
        term("box R-Drop 4", training={"rdrop_alpha": 4.0}),
        term("box adversarial .2", training={"adversarial_epsilon": 0.2}),
    ],
}  # fmt: skip


@dataclass(frozen=True)
class Job:
    """One adaptation (without `labels`) or one fine-tuning, in a worker."""

    setting: Setting
    set: str
    work: str
    labels: int | None = None
    seed: int = 0

    @property
    def key(self) -> tuple[str, str, int, int]:
        """What a line of results.jsonl is about."""
        return self.setting.name, self.set, self.labels or 0, self.seed

    @property
    def adapted_base(self) -> Path:
        """The run folder of the adapted base."""
        return Path(self.work) / "bases" / f"{self.set}-{self.setting.adapt_name.replace(' ', '_')}"


@app.command
def run(
    data: Path,
    out: Path,
    /,
    *,
    minutes: float = 8,
    workers: int = 8,
    round: int = 1,
    seeds: int = 3,
    names: str = "",
    sets: str = ",".join([*SETS, *FEWER_CLASSES]),
    most_labels: int | None = None,
    max_steps: int | None = None,
    work: Path | None = None,
) -> None:
    """Run what is missing of a round until the clock stops it, then print the table.

    `names` are parts of names of settings, separated by ";". With `most_labels` only runs with at most so many labels
    are run. `max_steps` is for a quick try of the script.
    """
    deadline = time.monotonic() + 60 * minutes
    work = work or Path(tempfile.gettempdir()) / "headswap-choose"
    out.mkdir(parents=True, exist_ok=True)
    for name in sets.split(","):
        prepare(data, work / "data", name)
    wanted = [part.strip() for part in names.split(";") if part.strip()]
    chosen = [one for one in ROUNDS[round] if not wanted or any(part in one.name for part in wanted)]
    done = {key_of(line) for line in read_results(out) if "error" not in line}
    pending = list(jobs_of(chosen, sets.split(","), seeds, done, work))
    pending = [job for job in pending if not (most_labels and job.labels and job.labels > most_labels)]
    print(f"{len(pending)} jobs, {len(done)} results are there already", flush=True)
    with (out / "results.jsonl").open("a", encoding="utf-8") as file:
        for result in results_of(pending, workers, deadline, max_steps):
            file.write(json.dumps(result) + "\n")
            file.flush()
            if "error" in result:
                print(f"FAILED {key_of(result)}: {result['error'].strip().splitlines()[-1]}", flush=True)
    table(out)


@app.command
def table(out: Path, /) -> None:
    """Mean accuracy over seeds (standard deviation, number of seeds) per setting, set and number of labels."""
    found: dict[str, dict[tuple[str, int], list[float]]] = defaultdict(lambda: defaultdict(list))
    bases, seconds = [], []
    for line in read_results(out):
        if "error" in line:
            continue
        seconds.append(line["wall"])
        if line["labels"]:
            column = line["set"], line["labels"]
            found[line["name"]][column].append(line["accuracy"])
            for part in ("one teacher", "teachers averaged"):
                if part in line:
                    found[f"{line['name']}: {part}"][column].append(line[part])
        else:
            bases.append(f"{line['name']}, {line['set']}: held-out loss {line['before']:.3f} -> {line['loss']:.3f}")
    columns = sorted({column for cells in found.values() for column in cells}, key=lambda one: (one[1], one[0]))
    width = max(map(len, found), default=4)
    print("\n".join(sorted(bases)))
    print("setting".ljust(width), *(f"{name} {labels}".rjust(15) for name, labels in columns))
    for name, cells in found.items():
        print(name.ljust(width), *(cell(cells.get(column, [])).rjust(15) for column in columns))
    print(f"{len(seconds)} results, {mean(seconds or [0]):.1f} s per job in its worker")


def cell(scores: list[float]) -> str:
    """Mean, standard deviation and number of seeds."""
    if not scores:
        return ""
    spread = f" {stdev(scores):.3f}" if len(scores) > 1 else ""
    return f"{mean(scores):.3f}{spread} {len(scores)}"


def prepare(data: Path, into: Path, name: str) -> None:
    """Write the scored rows, the other rows, their texts and a tokenizer of these; the same for all settings."""
    folder = into / name
    if (folder / "tokenizer.json").exists():
        return
    source, num_classes = FEWER_CLASSES.get(name, (name, None))
    file = next(path for path in (data / source / "train.csv", data / source / "train.csv.gz") if path.exists())
    open_text = gzip.open if file.suffix == ".gz" else open
    with open_text(file, "rt", encoding="utf-8", newline="") as lines:
        rows = list({row["text"].strip(): row for row in csv.DictReader(lines) if row["text"].strip()}.values())
    kept = set(sorted({row["label"] for row in rows})[:num_classes])
    rows = [row for row in rows if row["label"] in kept]
    random.Random(0).shuffle(rows)
    folder.mkdir(parents=True, exist_ok=True)
    for part, chosen in (("scored", rows[:NUM_SCORED]), ("pool", rows[NUM_SCORED:])):
        write(folder / f"{part}.jsonl", [{"text": row["text"], "label": row["label"]} for row in chosen])
    texts = folder / "texts.jsonl"
    write(texts, [{"text": row["text"]} for row in rows[NUM_SCORED:]])
    cached_tokenizer([str(texts)], ReadSettings(), TokenizerSettings()).save(folder / "tokenizer.json")


def write(file: Path, rows: list[dict[str, str]]) -> None:
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def read_results(out: Path) -> list[Result]:
    file = out / "results.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def key_of(line: Result) -> tuple[str, str, int, int]:
    return line["name"], line["set"], line["labels"], line["seed"]


def jobs_of(settings: list[Setting], sets: list[str], seeds: int, done: set, work: Path) -> Iterator[Job]:
    """The missing jobs, most important first: settings in their order, for each all sets, labels and seeds."""
    made: set[Path] = set()
    for setting in settings:
        few = 0 if setting.base == "scratch" else 1
        labels = setting.labels or {name: (SETS[name][few], SETS[name][2]) for name in SETS}
        missing = [
            job
            for seed in range(1, seeds + 1)
            for name in sets
            for number in labels.get(name, ())
            if (job := Job(setting, name, str(work), number, seed)).key not in done
        ]
        if setting.adapt is not None:
            for job in (Job(setting, name, str(work)) for name in sets if name in {one.set for one in missing}):
                if job.adapted_base not in made and not (job.adapted_base / "bundle").exists():
                    made.add(job.adapted_base)
                    yield job
        yield from missing


def results_of(pending: list[Job], workers: int, deadline: float, max_steps: int | None) -> Iterator[Result]:
    """The result of each job as it ends. A fine-tuning waits for its base; no job starts after the deadline."""
    pool, running = new_pool(workers), {}
    making = {job.adapted_base for job in pending if job.labels is None}
    try:
        while pending or running:
            while len(running) < workers and time.monotonic() < deadline:
                ready = (job for job in pending if job.labels is None or job.adapted_base not in making)
                if (job := next(ready, None)) is None:
                    break
                pending.remove(job)
                running[pool.submit(result_of, job, max_steps)] = job
            if not running:
                break
            left = max(0.0, deadline + GRACE_SECONDS - time.monotonic())
            ended, _ = wait(running, timeout=left, return_when=FIRST_COMPLETED)
            if not ended:
                print(f"The clock stopped {len(running)} jobs; {len(pending)} were not started.", flush=True)
                return
            for future in ended:
                job = running.pop(future)
                result, is_broken = outcome(job, future)
                if job.labels is None:
                    making.discard(job.adapted_base)
                    if "error" in result:
                        pending = [other for other in pending if other.adapted_base != job.adapted_base]
                yield result
                if is_broken:  # a process was killed: the other jobs of this pool fail too and run again
                    pending = [*running.values(), *pending]
                    running, pool = {}, new_pool(workers)
                    break
        if pending:
            print(f"{len(pending)} jobs were not started.", flush=True)
    finally:
        processes = list((pool._processes or {}).values())
        pool.shutdown(wait=False, cancel_futures=True)
        for process in processes:
            process.kill()


def new_pool(workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=warm_up)


def outcome(job: Job, future: Future[Result]) -> tuple[Result, bool]:
    """The result of a job or its error, and whether its pool is broken."""
    head = {"name": job.setting.name, "set": job.set, "labels": job.labels or 0, "seed": job.seed}
    try:
        return head | future.result(), False
    except BrokenProcessPool as problem:
        return head | {"error": f"A worker process was killed: {problem}"}, True
    except Exception as problem:
        return head | {"error": "".join(traceback.format_exception(problem))}, False


def warm_up() -> None:
    """Import what all jobs need and create the CUDA context; once per worker."""
    import torch

    import headswap.finetuning.finetune

    logging.getLogger(headswap.__name__).setLevel(logging.ERROR)
    torch.set_num_threads(1)
    if torch.cuda.is_available():
        torch.zeros(1, device="cuda")


def result_of(job: Job, max_steps: int | None) -> Result:
    """Adapt a base, or fine-tune and score; in a worker."""
    started = time.perf_counter()
    if job.labels is None:
        result = adapt_base(job, max_steps)
    else:
        result = way_of(job.setting)(job, max_steps)
    return result | {"wall": round(time.perf_counter() - started, 2)}


def way_of(setting: Setting) -> Callable[[Job, int | None], Result]:
    """How a setting is scored."""
    if setting.base == "tfidf":
        return score_tfidf
    return distil_and_score if setting.num_teachers else finetune_and_score


def score_tfidf(job: Job, max_steps: int | None) -> Result:
    """The baseline with the labels of the same seed, without a hold-out."""
    from headswap.baselines.scores import task_baselines
    from headswap.data.labelled import read_labelled
    from headswap.data.stratify import stratified_subset

    del max_steps
    assert job.labels is not None
    folder = Path(job.work) / "data" / job.set
    pool, scored = (
        read_labelled(str(folder / f"{name}.jsonl"), text_column="text", label_column="label")
        for name in ("pool", "scored")
    )
    own = [pool[index] for index in stratified_subset(pool, job.labels, job.seed)]
    return {"accuracy": task_baselines("classify", own, scored)["tfidf"]["accuracy"]}


def adapt_base(job: Job, max_steps: int | None) -> Result:
    """Adapt the box to the texts of the set."""
    from headswap.defaults.pretraining import adaptation_rate
    from headswap.pretraining.pretrain import adapt

    assert job.setting.adapt is not None
    others = dict(job.setting.adapt)
    epochs, rate = others.pop("epochs"), others.pop("rate_factor") * adaptation_rate(256)
    limit = {"num_train_epochs": epochs} if max_steps is None else {"max_steps": max_steps}
    sections = {
        "corpus": {"corpus": (str(Path(job.work) / "data" / job.set / "texts.jsonl"),)},
        "model": {"base": str(BOX)},
        "training": {"learning_rate": rate, "seed": 1, **limit, **others},
        "machine": {"threads": 1},
    }
    partial = job.adapted_base.with_name(f"{job.adapted_base.name}.{os.getpid()}")
    folder = adapt(out=partial, sections=sections, overwrite=True)
    result = json.loads((folder.path / "result.json").read_text())
    shutil.rmtree(folder.path / "checkpoints", ignore_errors=True)
    shutil.rmtree(job.adapted_base, ignore_errors=True)
    partial.rename(job.adapted_base)
    return {"loss": result["loss"], "before": result["before"]["loss"], "seconds": result["seconds"]}


def sections_of(job: Job, max_steps: int | None) -> dict[str, Any]:
    """The recipe of a fine-tuning: some labels of the pool for training, the rows that are not in it as test."""
    from headswap.defaults.finetuning import finetuning_rate

    setting, data = job.setting, Path(job.work) / "data" / job.set
    is_scratch = setting.base == "scratch"
    width = setting.model.get("hidden_size", 256)
    rate = setting.rate_factor * finetuning_rate(width, tokens_per_parameter=0 if is_scratch else None)
    base = "scratch" if is_scratch else str(BOX if setting.adapt is None else job.adapted_base)
    limit = {} if max_steps is None else {"max_steps": max_steps}
    sections: dict[str, Any] = {
        "data": {
            "train": str(data / "pool.jsonl"), "test": str(data / "scored.jsonl"), "num_train": job.labels,
            "hold_out_from": 200 if setting.holds_out else 10**9,
        },
        "tokenizer": {"tokenizer": str(data / "tokenizer.json")} if is_scratch else {},
        "model": {"base": base, **setting.model},
        "head": {"head_similarity": "dot", **setting.head},
        "adaptation": {} if is_scratch else {"head_init": "random", **setting.adaptation},
        "training": {"seed": job.seed, "learning_rate": rate, **setting.training, **limit},
        "machine": {"threads": 1},
    }  # fmt: skip
    if setting.consistency is not None:
        sections["consistency"] = {"unlabelled": (str(data / "texts.jsonl"),), **setting.consistency}
    return sections


def trained(out: Path, sections: dict[str, Any]) -> Result:
    """Fine-tune; return the result of the run."""
    from headswap.finetuning.finetune import finetune

    finetune(out=out, sections=sections, with_baselines=False, reloads_in_fresh_process=False)
    return json.loads((out / "result.json").read_text())


def scores_of(result: Result) -> Result:
    """What is kept of the result of a run."""
    kept = {name: result.get(name) for name in ("best_epoch", "num_train", "seconds", "device", "unlabelled")}
    return {"accuracy": result["test"]["accuracy"], **kept}


def finetune_and_score(job: Job, max_steps: int | None) -> Result:
    """Fine-tune on some labels of the pool and score the rows that are not in it."""
    with tempfile.TemporaryDirectory(prefix="finetune-", dir=job.work) as folder:
        return scores_of(trained(Path(folder) / "run", sections_of(job, max_steps)))


def distil_and_score(job: Job, max_steps: int | None) -> Result:
    """Train teachers of other seeds on the labels of this seed, score their average, and distil them into one model."""
    from contextlib import nullcontext

    from headswap.bundle.bundle import Bundle
    from headswap.data.config import ColumnSettings
    from headswap.data.labelled import read_labelled
    from headswap.data.stratify import stratified_subset
    from headswap.inference.evaluate import score_task

    sections = sections_of(job, max_steps)
    with tempfile.TemporaryDirectory(prefix="distil-", dir=job.work) as name:
        folder = Path(name)
        pool = read_labelled(sections["data"]["train"], text_column="text", label_column="label")
        own = [pool[index] for index in stratified_subset(pool, sections["data"].pop("num_train"), job.seed)]
        write(folder / "train.jsonl", [{"text": one.text, "label": one.label} for one in own])
        sections["data"]["train"] = str(folder / "train.jsonl")
        teachers, scores = [], []
        for number in range(job.setting.num_teachers):
            training = {**sections["training"], "seed": 100 * job.seed + number}
            model = dict(sections["model"])
            if job.setting.directions:
                model["direction"] = job.setting.directions[number]
            scores.append(trained(folder / f"teacher-{number}", {**sections, "model": model, "training": training}))
            teachers.append(str(folder / f"teacher-{number}"))
        bundles = [Bundle.load(teacher) for teacher in teachers]
        averaged = score_task(
            bundles[0], sections["data"]["test"], columns=ColumnSettings(), label_file=None, max_length=None,
            autocast=nullcontext(), others=bundles[1:],
        )  # fmt: skip
        texts = str(Path(job.work) / "data" / job.set / "texts.jsonl")
        sections["consistency"] = {"unlabelled": (texts,), "teachers": tuple(teachers)}
        result = scores_of(trained(folder / "student", sections))
    one = mean(score["test"]["accuracy"] for score in scores)
    return result | {"one teacher": one, "teachers averaged": averaged["accuracy"]}


if __name__ == "__main__":
    app()
