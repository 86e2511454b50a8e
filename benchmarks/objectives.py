"""Which objective, and which way to adapt, serves few labels best on IMDb: the experiments behind docs/results.md.

    python benchmarks/imdb.py prepare IMDB_FOLDER DATA           # clean splits, a tokenizer and a token store
    python benchmarks/objectives.py bases DATA OUT               # causal, masked, masked+nsp: the same number of tokens
    python benchmarks/objectives.py settings DATA OUT            # fine-tuning settings, chosen on Rotten Tomatoes
    python benchmarks/objectives.py table DATA OUT --jobs 8      # bases x ways to adapt x labels, 3 seeds
    python benchmarks/objectives.py budgets DATA OUT --jobs 3    # the causal base with 100, 1,600 and all labels

Runs that are finished are not run again, and runs that were stopped go on: every command can be repeated.
"""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cyclopts import App
from imdb import Jobs, headswap, print_row, result_of

from headswap.study.statistics import mean_interval

app = App(help=__doc__)
OBJECTIVES = ("causal", "masked", "masked+nsp")
ROWS = {"masked+nsp": 128}  # a pair is about half as long as a packed window: as many tokens a step as the others
WAYS: dict[str, list[object]] = {
    "all": [],
    "head": ["--trainable", "head", "--learning-rate", 2e-3],
    "lora": ["--trainable", "lora", "--learning-rate", 1e-3],
    "gradual": ["--unfreeze", "gradual"],
}
SETTINGS: dict[str, list[object]] = {
    f"lr {rate:g}, head x{factor}, layers x{decay}": [
        "--learning-rate", rate, "--head-lr-factor", factor, "--layer-lr-decay", decay,
    ]
    for rate in (1e-4, 2e-4)
    for factor in (1, 10)
    for decay in (1, 0.8)
}  # fmt: skip


@app.command
def bases(
    data: Path,
    out: Path,
    /,
    *,
    names: str = ",".join(OBJECTIVES),
    tokens: float = 200e6,
    preset: str = "modern",
    dropout: float = 0.1,
    jobs: Jobs = 3,
) -> None:
    """Pre-train a base with each objective on the same text, for the same number of tokens."""

    def one(objective: str) -> dict:
        base = out / f"base-{objective}"
        headswap(
            "pretrain", data / "store", "--objective", objective, "--preset", preset, "--max-tokens", int(tokens),
            "--batch-size", ROWS.get(objective, 64), "--dropout", dropout, "--seed", 1, "--out", base, "--resume",
        )  # fmt: skip
        return result_of(base)

    chosen = names.split(",")
    with ThreadPoolExecutor(jobs) as pool:
        found = dict(zip(chosen, pool.map(one, chosen), strict=True))
    print("\n| base | held-out loss | perplexity | pairs told right | tokens | seconds |\n|---|---|---|---|---|---|")
    for name, result in found.items():
        pairs = f"{result['nsp_accuracy']:.3f}" if "nsp_accuracy" in result else ""
        print(
            f"| {name} | {result['loss']:.3f} | {result['perplexity']:.1f} | {pairs} | "
            f"{result['tokens'] / 1e6:.0f} M | {result['seconds']:.0f} |",
            flush=True,
        )


@app.command
def settings(data: Path, out: Path, /, *, seeds: int = 2, jobs: Jobs = 8, objective: str = "causal") -> None:
    """Fine-tuning settings on Rotten Tomatoes, whose labels no IMDb figure uses; validation accuracy decides."""
    labelled = ["--train", data / "rt-train.jsonl.gz", "--test", data / "rt-test.jsonl.gz"]
    work = {
        (name, labels, epochs, seed): [
            "--base", out / f"base-{objective}", *labelled, *options, "--num-train", labels,
            "--num-train-epochs", epochs, "--seed", seed,
        ]
        for name, options in SETTINGS.items()
        for labels, choices in ((100, (10, 30)), (1_600, (10,)))
        for epochs in choices
        for seed in range(1, seeds + 1)
    }  # fmt: skip
    found = finetunings(out / "settings", work, jobs=jobs)
    print(f"\n| Rotten Tomatoes, {seeds} seeds, test accuracy | 100 labels, 10 epochs | 100, 30 | 1,600, 10 |")
    print("|---|---|---|---|")
    for name in SETTINGS:
        cells = []
        for labels, epochs in ((100, 10), (100, 30), (1_600, 10)):
            scores = [found[name, labels, epochs, seed] for seed in range(1, seeds + 1)]
            cells.append(f"{sum(scores) / seeds:.4f}")
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


@app.command
def table(data: Path, out: Path, /, *, seeds: int = 3, jobs: Jobs = 8) -> None:
    """Bases x ways to adapt x labels on IMDb."""
    every, budgets = range(1, seeds + 1), (100, 1_600)
    work = {
        (objective, way, labels, seed): [
            "--base", out / f"base-{objective}", *imdb_labels(data, labels), *options, "--seed", seed,
        ]
        for labels in budgets
        for objective in OBJECTIVES
        for way, options in WAYS.items()
        for seed in every
    }  # fmt: skip
    found = finetunings(out / "table", work, jobs=jobs)
    print(f"\n| base, way | test accuracy | 95 % interval, {seeds} seeds |\n|---|---|---|")
    for labels in budgets:
        for objective in OBJECTIVES:
            for way in WAYS:
                scores = [found[objective, way, labels, seed] for seed in every]
                print_row(f"{labels} labels, {objective}, {way}", mean_interval(scores))


@app.command
def budgets(data: Path, out: Path, /, *, seeds: int = 3, jobs: Jobs = 3, objective: str = "causal") -> None:
    """One base fine-tuned by default settings with 100, 1,600 and all labels."""
    every = range(1, seeds + 1)
    work = {
        (labels, seed): ["--base", out / f"base-{objective}", *imdb_labels(data, labels), "--seed", seed]
        for labels in (100, 1_600, None)
        for seed in every
    }
    found = finetunings(out / f"budgets-{objective}", work, jobs=jobs)
    print(f"\n| labels, {objective} base | test accuracy | 95 % interval, {seeds} seeds |\n|---|---|---|")
    for labels in (100, 1_600, None):
        print_row(f"{labels or 'all'}", mean_interval([found[labels, seed] for seed in every]))


def imdb_labels(data: Path, labels: int | None) -> list[object]:
    """The flags of a labelled set of some size."""
    number = [] if labels is None else ["--num-train", labels]
    return ["--train", data / "train.jsonl.gz", "--test", data / "test.jsonl.gz", *number]


def finetunings(out: Path, work: dict, *, jobs: int) -> dict:
    """The test accuracy of every piece of work, several at a time."""

    def one(key: tuple) -> float:
        folder = out / "-".join(str(part).replace(" ", "").replace(",", "-") for part in key)
        headswap("finetune", *work[key], "--out", folder, "--resume", "--threads", 1)
        return result_of(folder)["test"]["accuracy"]

    with ThreadPoolExecutor(jobs) as pool:
        found = dict(zip(work, pool.map(one, work), strict=True))
    out.mkdir(parents=True, exist_ok=True)
    (out / "accuracies.json").write_text(json.dumps({str(key): value for key, value in found.items()}, indent=1))
    return found


if __name__ == "__main__":
    app()
