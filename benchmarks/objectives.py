"""Objectives and ways to adapt with few labels on IMDb: the experiments of docs/results.md.

    python benchmarks/imdb.py prepare IMDB_FOLDER DATA           # clean splits, a tokenizer and a token store
    python benchmarks/objectives.py bases DATA OUT               # causal, masked, masked+nsp: the same number of tokens
    python benchmarks/objectives.py settings DATA OUT            # fine-tuning settings, chosen on Rotten Tomatoes
    python benchmarks/objectives.py budgets DATA OUT --jobs 3    # bases with 100, 1,600 and all labels
    python benchmarks/objectives.py table DATA OUT --jobs 8      # bases x ways to adapt x labels, 3 seeds

Every command can be repeated: finished runs are not run again, and stopped runs are resumed.
"""

import json
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from cyclopts import App
from imdb import Jobs, finetuned, headswap, print_row, result_of
from seed_means import mean_interval

app = App(help=__doc__)
OBJECTIVES = ("causal", "masked", "masked+nsp")
TOKENS_PER_STEP = 32_768
LONGER = {"masked+nsp": 2}  # a pair is half as long as a packed window; twice as many give the same tokens per step
WAYS: dict[str, dict[str, Any]] = {
    "all": {"unfreeze": "at-once"},
    "head": {"trainable": "head", "learning_rate": 2e-3},
    "lora": {"trainable": "lora", "learning_rate": 1e-3},
    "gradual": {"unfreeze": "gradual"},
}
MIDDLE: dict[str, Any] = {"learning_rate": 1e-4, "num_train_epochs": 20, "unfreeze": "at-once", "pooling": "mean"}
SETTINGS: dict[str, dict[str, Any]] = {
    **{
        f"lr {rate:g}, {epochs} epochs": {**MIDDLE, "learning_rate": rate, "num_train_epochs": epochs}
        for rate in (5e-5, 1e-4, 2e-4)
        for epochs in (10, 20, 40)
    },
    "one rate for all": {**MIDDLE, "layer_lr_decay": 1.0, "head_lr_factor": 1.0},
    "layers x0.65": {**MIDDLE, "layer_lr_decay": 0.65},
    "layers x0.9": {**MIDDLE, "layer_lr_decay": 0.9},
    "head x3": {**MIDDLE, "head_lr_factor": 3.0},
    "head x30": {**MIDDLE, "head_lr_factor": 30.0},
    "gradual": {**MIDDLE, "unfreeze": "gradual"},
    "gradual, lr 2e-4": {**MIDDLE, "unfreeze": "gradual", "learning_rate": 2e-4},
    "pooling last": {**MIDDLE, "pooling": "last"},
    "pooling later": {**MIDDLE, "pooling": "weighted-mean"},
    "pooling later, gradual": {**MIDDLE, "pooling": "weighted-mean", "unfreeze": "gradual"},
    "dropout 0": {**MIDDLE, "dropout": 0.0},
    "dropout 0.2": {**MIDDLE, "dropout": 0.2},
    "batch 8": {**MIDDLE, "batch_size": 8},
    "label smoothing 0.1": {**MIDDLE, "label_smoothing_factor": 0.1},
}
"""Changes of the earlier default (layers x0.8, head x10, 1e-4, 20 epochs, all at once, mean)."""
AT_ONCE: dict[str, Any] = {"unfreeze": "at-once", "pooling": "mean"}
VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "at once, mean": AT_ONCE,
    "gradual, mean": {"unfreeze": "gradual", "pooling": "mean"},
    "at once, later": {"unfreeze": "at-once", "pooling": "weighted-mean"},
    "gradual, later": {"unfreeze": "gradual", "pooling": "weighted-mean"},
    "at once, mean, head+tail": {**AT_ONCE, "long": "head+tail"},
    "at once, mean+max": {**AT_ONCE, "pooling": "mean+max"},
    "at once, mean, length 512": {**AT_ONCE, "max_length": 512},
    "head+tail": {"long": "head+tail"},
    "length 512": {"max_length": 512},
}


@app.command
def bases(
    data: Path, out: Path, /, *, names: str = ",".join(OBJECTIVES), tokens: float = 250e6, preset: str = "modern",
    max_length: int = 512, jobs: Jobs = 3,
) -> None:  # fmt: skip
    """Pre-train bases on the same text, for the same number of tokens; `causal:0.2` has dropout 0.2."""

    def one(name: str) -> dict:
        objective, _, dropout = name.partition(":")
        headswap(
            "pretrain", data / "store", "--objective", objective, "--preset", preset, "--max-tokens", int(tokens),
            "--max-length", max_length,
            "--batch-size", TOKENS_PER_STEP // max_length * LONGER.get(objective, 1), "--seed", 1,
            "--out", base_of(out, name), "--resume",
            *(["--dropout", dropout] if dropout else []),
        )  # fmt: skip
        return result_of(base_of(out, name))

    chosen = names.split(",")
    with ThreadPoolExecutor(jobs) as pool:
        found = dict(zip(chosen, pool.map(one, chosen), strict=True))
    print("\n| base | held-out loss | perplexity | pair accuracy | tokens | seconds |\n|---|---|---|---|---|---|")
    for name, result in found.items():
        pairs = f"{result['nsp_accuracy']:.3f}" if "nsp_accuracy" in result else ""
        print(
            f"| {name} | {result['loss']:.3f} | {result['perplexity']:.1f} | {pairs} | "
            f"{result['tokens'] / 1e6:.0f} M | {result['seconds']:.0f} |",
            flush=True,
        )


@app.command
def settings(
    data: Path, out: Path, /, *, seeds: int = 5, jobs: Jobs = 8, objective: str = "causal", labels: str = "100,1600"
) -> None:
    """Fine-tuning settings on Rotten Tomatoes, whose labels are not used for any IMDb figure."""
    every, sizes = range(1, seeds + 1), [int(size) for size in labels.split(",")]
    work = {
        (name, size, seed): {
            "base": base_of(out, objective), "train": str(data / "rt-train.jsonl.gz"),
            "test": str(data / "rt-test.jsonl.gz"), "num_train": size, "seed": seed, **options,
        }
        for size in sizes
        for name, options in SETTINGS.items()
        for seed in every
    }  # fmt: skip
    found = finetunings(out / "settings", work, jobs=jobs)
    columns = " | ".join(f"{size:,} labels" for size in sizes)
    print(f"\n| Rotten Tomatoes, {objective}, test accuracy | {columns} |\n|---|{'---|' * len(sizes)}")
    for name in SETTINGS:
        means = [mean_interval([found[name, size, seed] for seed in every]) for size in sizes]
        print(f"| {name} | {' | '.join(f'{one.mean:.4f}' for one in means)} |", flush=True)


@app.command
def budgets(
    data: Path, out: Path, /, *, seeds: int = 3, jobs: Jobs = 3, names: str = "causal", variants: str = "default",
    labels: str = "all,1600,100",
) -> None:  # fmt: skip
    """Bases fine-tuned with few and with all labels, by default settings or variants of them."""
    every, sizes = range(1, seeds + 1), [None if size == "all" else int(size) for size in labels.split(",")]
    keys = [(name, way, size) for size in sizes for name in names.split(",") for way in variants.split(";")]
    work = {
        (name, way, size, seed): {
            "base": base_of(out, name), **imdb_labels(data, size), **VARIANTS[way], "seed": seed,
        }
        for name, way, size in keys
        for seed in every
    }  # fmt: skip
    found = finetunings(out / "budgets", work, jobs=jobs)
    print(f"\n| base, way, labels | test accuracy | 95 % interval, {seeds} seeds |\n|---|---|---|")
    for name, way, size in keys:
        print_row(f"{name}, {way}, {size or 'all'} labels", mean_interval([found[name, way, size, s] for s in every]))


@app.command
def table(data: Path, out: Path, /, *, seeds: int = 3, jobs: Jobs = 8, names: str = ",".join(OBJECTIVES)) -> None:
    """Bases x ways to adapt x labels on IMDb."""
    every, sizes, chosen = range(1, seeds + 1), (1_600, 100), names.split(",")
    work = {
        (name, way, labels, seed): {
            "base": base_of(out, name), **imdb_labels(data, labels), **options, "seed": seed,
        }
        for labels in sizes
        for seed in every
        for name in chosen
        for way, options in WAYS.items()
    }  # fmt: skip
    found = finetunings(out / "table", work, jobs=jobs)
    print(f"\n| base, way | test accuracy | 95 % interval, {seeds} seeds |\n|---|---|---|")
    for labels in sizes:
        for name in chosen:
            for way in WAYS:
                scores = [found[name, way, labels, seed] for seed in every]
                print_row(f"{labels} labels, {name}, {way}", mean_interval(scores))


def base_of(out: Path, name: str) -> Path:
    """The folder of a base."""
    return out / f"base-{name.replace(':', '-')}"


def imdb_labels(data: Path, labels: int | None) -> dict[str, Any]:
    """The settings of a labelled set with a number of labels."""
    sets: dict[str, Any] = {"train": str(data / "train.jsonl.gz"), "test": str(data / "test.jsonl.gz")}
    return sets if labels is None else {**sets, "num_train": labels}


def finetunings(out: Path, work: dict[tuple, dict[str, Any]], *, jobs: int) -> dict[tuple, float]:
    """The test accuracy of every fine-tuning, several in parallel, started in the given order."""
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        begun = {}
        for key, options in work.items():
            base = options.pop("base")
            begun[key] = pool.submit(finetuned, base, out / folder_name(key), options)
    found = {key: future.result() for key, future in begun.items()}
    out.mkdir(parents=True, exist_ok=True)
    (out / "accuracies.json").write_text(json.dumps({str(key): value for key, value in found.items()}, indent=1))
    return found


def folder_name(key: Sequence[object]) -> str:
    """The name of a run folder, from the key of the run."""
    return "-".join(str(part).replace(" ", "").replace(",", "-").replace(":", "-") for part in key)


if __name__ == "__main__":
    app()
