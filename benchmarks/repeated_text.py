"""Pre-training on text that is read many times: held-out losses of several settings on IMDb (docs/results.md).

    python benchmarks/imdb.py prepare IMDB_FOLDER DATA                # clean splits, a tokenizer
    python benchmarks/repeated_text.py prepare DATA                   # 490 held-out documents, and the others
    python benchmarks/repeated_text.py run DATA OUT --seeds 3         # adamw and muon, 2 minutes per run on an H200
    python benchmarks/repeated_text.py run DATA OUT --names all       # every setting, one seed
    python benchmarks/repeated_text.py race DATA OUT --minutes 1.5    # adamw and muon at equal device time
    python benchmarks/repeated_text.py table OUT
    python benchmarks/repeated_text.py labels DATA OUT --jobs 14      # 100 labels, scored on other reviews of train

Every command can be repeated: finished runs are not run again, and stopped runs are resumed. `race` runs seed 1 of each
setting alone on the device; a speed test converts the minutes to steps. The other seeds take the same numbers of steps.
"""

import hashlib
import json
import random
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from box import without_overlap
from cyclopts import App
from imdb import Jobs, headswap, print_row, read, result_of, write
from seed_means import mean_interval

import headswap as hs

app = App(help=__doc__)
NUM_HELD_OUT = 490
NUM_POOL, NUM_SCORED = 6_000, 2_000
MUON = ["--dropout", 0.1, "--optimizer", "muon"]
SETTINGS: dict[str, list[object]] = {
    "adamw": ["--dropout", 0.2, "--optimizer", "adamw", "--learning-rate", 7.1e-4, "--weight-decay", 0.05],
    "muon": [*MUON, "--learning-rate", 1.42e-3, "--muon-lr-factor", 14, "--weight-decay", 2],
    "adamw-d1": ["--dropout", 0.1, "--weight-decay", 1],
    "adamw-d1-x2": ["--dropout", 0.1, "--learning-rate", 1.42e-3, "--weight-decay", 1],
    "adamw-d1-x4": ["--dropout", 0.1, "--learning-rate", 2.84e-3, "--weight-decay", 1],
    "adamw-d1-x4-half": ["--dropout", 0.1, "--learning-rate", 2.84e-3, "--weight-decay", 0.5],
    "muon-half": [*MUON, "--learning-rate", 1.42e-3, "--muon-lr-factor", 14, "--weight-decay", 0.5],
    "muon-one": [*MUON, "--learning-rate", 1.42e-3, "--muon-lr-factor", 14, "--weight-decay", 1],
    "muon-x4": [*MUON, "--learning-rate", 2.84e-3, "--muon-lr-factor", 7, "--weight-decay", 1],
}


@app.command
def prepare(data: Path, /) -> None:
    """Split the unlabelled reviews into held-out documents and the others, the same for every seed.

    Reviews that are nearly equal to a review of test or to an earlier one are dropped; `imdb.py prepare` dropped the
    equal ones.
    """
    test = [row["text"] for row in read(data / "test-all.jsonl.gz")]
    texts, _ = without_overlap([row["text"] for row in read(data / "unsup.jsonl.gz")], {"test": test})
    rows = [{"text": text} for text in sorted(texts, key=lambda text: hashlib.sha256(text.encode()).hexdigest())]
    write(data / "repeated-held-out.jsonl.gz", rows[:NUM_HELD_OUT])
    rest = rows[NUM_HELD_OUT:]
    random.Random(0).shuffle(rest)
    write(data / "repeated-corpus.jsonl.gz", rest)


@app.command
def run(
    data: Path,
    out: Path,
    /,
    *,
    names: str = "adamw,muon",
    seeds: int = 1,
    tokens: float = 155e6,
    preset: str = "modern",
) -> None:
    """Pre-train with each setting and seed, and score the held-out documents."""
    for seed in range(1, seeds + 1):
        for name in SETTINGS if names == "all" else names.split(","):
            options = ["--preset", preset, "--max-length", 512, "--batch-size", 64, "--max-tokens", int(tokens)]
            pretrain_and_score(data, out, name, seed, options)
    table(out)


@app.command
def race(
    data: Path,
    out: Path,
    /,
    *,
    minutes: float = 1.5,
    names: str = "adamw,muon",
    seeds: int = 3,
    max_length: int = 1_024,
    batch_size: int = 32,
    preset: str = "modern",
    jobs: Jobs = 2,
) -> None:
    """Pre-train with each setting for the same device time, and score the held-out documents."""
    chosen = names.split(",")
    shape = ["--preset", preset, "--max-length", max_length, "--batch-size", batch_size]
    for name in chosen:
        pretrain_and_score(data, out, name, 1, [*shape, "--max-minutes", minutes], max_length)

    def with_equal_steps(run: tuple[int, str]) -> None:
        seed, name = run
        steps = result_of(out / f"{name}-1")["steps"]
        pretrain_and_score(data, out, name, seed, [*shape, "--max-steps", steps], max_length)

    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(with_equal_steps, [(seed, name) for seed in range(2, seeds + 1) for name in chosen]))
    table(out)


def pretrain_and_score(
    data: Path, out: Path, name: str, seed: int, options: Sequence[object], max_length: int = 512
) -> None:
    """Pre-train one base, unless it is finished, and write its held-out loss into its run folder."""
    base = out / f"{name}-{seed}"
    headswap(
        "pretrain", data / "repeated-corpus.jsonl.gz", "--tokenizer", data / "tokenizer.json", *options,
        "--seed", seed, *SETTINGS[name], "--out", base, "--resume",
    )  # fmt: skip
    if not (base / "held-out.json").exists():
        scores = hs.load(base).evaluate(data / "repeated-held-out.jsonl.gz", max_length=max_length)
        (base / "held-out.json").write_text(json.dumps(scores))


@app.command
def table(out: Path, /) -> None:
    """Held-out loss of each run, its bits per byte and its seconds, and the means over seeds."""
    losses: dict[str, list[float]] = {}
    for file in sorted(out.glob("*/held-out.json")):
        scores, name = json.loads(file.read_text()), file.parent.name
        losses.setdefault(name.rpartition("-")[0], []).append(scores["loss"])
        run = result_of(file.parent)
        figures = f"{scores['loss']:.4f} | {scores['bits_per_byte']:.4f} | {run['seconds']:.0f}"
        print(f"| {name} | {figures} | {run['steps']} | {run['tokens'] / 1e6:.1f} |")
    for name, found in losses.items():
        print_row(name, mean_interval(found))


@app.command
def labels(data: Path, out: Path, /, *, names: str = "adamw-1,muon-1", seeds: int = 10, jobs: Jobs = 1) -> None:
    """Fine-tune the bases on 100 labels of train and score them on other reviews of train; test is not used."""
    rows = random.Random(1).sample(read(data / "train.jsonl.gz"), NUM_POOL + NUM_SCORED)
    write(data / "repeated-train.jsonl.gz", rows[:NUM_POOL])
    write(data / "repeated-scored.jsonl.gz", rows[NUM_POOL:])
    arms = ",".join(str(out / name) for name in names.split(","))
    headswap(
        "study", "--train", data / "repeated-train.jsonl.gz", "--test", data / "repeated-scored.jsonl.gz",
        "--arms", arms, "--budgets", 100, "--seeds", seeds, "--keep", "results", "--jobs", jobs, "--threads", 1,
        "--out", out / "labels",
    )  # fmt: skip
    print((out / "labels" / "report.md").read_text())


if __name__ == "__main__":
    app()
