"""The lab's two curves, test accuracy after each epoch, next to those that its students published.

    headswap study --config recipes/lab-study.toml --out studies/lab        # pre-trains the base of the second curve
    python benchmarks/lab.py curves CLS_BOOKS BASE OUT --seeds 10 --jobs 5
    python benchmarks/lab.py plot OUT docs/lab-curves.png
    python benchmarks/lab.py raw CLS_BOOKS DATA             # the reviews as raw text, for recipes/cls-books-study.toml

CLS_BOOKS contains {train,test}.review.spm, the files of labels and dict.txt. BASE is the run folder of a base with the
preset lab. Each run is trained on the 1,600 training reviews with recipes/lab-finetune.toml. The lab scored its test
set after every epoch, so these runs do the same: the test set is passed as the validation set. Nothing is chosen by it;
the last epoch is reported. All other figures of headswap score the test set once. Finished runs are not run again.
"""

import gzip
import json
import tomllib
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from cyclopts import App
from seed_means import mean_interval, paired_difference

import headswap as hs

app = App(help=__doc__)
RECIPE = Path(__file__).parent.parent / "recipes" / "lab-finetune.toml"
PUBLISHED = {
    "scratch": {1: 0.562, 3: 0.742, 5: 0.750, 15: 0.753},
    "pretrained": {1: 0.759, 3: 0.794, 5: 0.797, 15: 0.796},
}
"""Mean of ten public runs of the lab; the pre-trained base of the lab was trained for 12 GPU hours on web text."""


@app.command
def curves(cls_books: Path, base: Path, out: Path, /, *, seeds: int = 10, jobs: int = 1) -> None:
    """Fine-tune scratch and the base with each seed, and print the accuracy after epochs 1, 3, 5 and 15."""
    starts = {
        "scratch": {"base": "scratch", "preset": "lab", "tokenizer": str(cls_books / "dict.txt")},
        "pretrained": {"base": str(base)},
    }
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        work = [
            pool.submit(_finetune, cls_books, out / f"{arm}-seed{seed}", start | {"seed": seed})
            for seed in range(1, seeds + 1)
            for arm, start in starts.items()
        ]
    for job in work:
        job.result()
    found = {arm: [_accuracies(out / f"{arm}-seed{seed}") for seed in range(1, seeds + 1)] for arm in starts}
    (out / "curves.json").write_text(json.dumps(found, indent=1))
    print("| arm | epoch 1 | epoch 3 | epoch 5 | epoch 15 |\n|---|---|---|---|---|")
    for arm, runs in found.items():
        cells = [mean_interval([run[epoch - 1] for run in runs]) for epoch in PUBLISHED[arm]]
        print(
            f"| {arm} | " + " | ".join(f"{cell.mean:.3f} ({cell.low:.3f} to {cell.high:.3f})" for cell in cells) + " |"
        )
        print(f"| {arm}, the lab | " + " | ".join(f"{value:.3f}" for value in PUBLISHED[arm].values()) + " |")
    last = [[run[-1] for run in found[arm]] for arm in ("pretrained", "scratch")]
    gain = paired_difference(*last)
    print(f"pretrained - scratch after epoch 15: {gain.mean:+.3f} ({gain.low:+.3f} to {gain.high:+.3f}), {seeds} seeds")


@app.command
def plot(out: Path, picture: Path, /) -> None:
    """Draw the curves with their 95 % intervals over seeds, and the published points."""
    from matplotlib.figure import Figure

    found = json.loads((out / "curves.json").read_text())
    figure = Figure(figsize=(7, 4.2), layout="constrained")
    axes = figure.subplots()
    for (arm, runs), colour in zip(found.items(), ("#b35900", "#1f5fa8"), strict=True):
        cells = [mean_interval(values) for values in zip(*runs, strict=True)]
        epochs = range(1, len(cells) + 1)
        axes.plot(epochs, [cell.mean for cell in cells], color=colour, label=f"{arm}, headswap ({len(runs)} seeds)")
        axes.fill_between(
            epochs, [cell.low or 0 for cell in cells], [cell.high or 0 for cell in cells], color=colour, alpha=0.15
        )
        points = PUBLISHED[arm]
        axes.plot(points.keys(), points.values(), "D", color=colour, markerfacecolor="white", label=f"{arm}, the lab")
    axes.set_xlabel("epoch")
    axes.set_ylabel("test accuracy")
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    figure.savefig(picture, dpi=130)


@app.command
def raw(cls_books: Path, data: Path, /) -> None:
    """Write {train,valid,test}.jsonl.gz with raw text: the pieces are joined, and U+2581 becomes a blank."""
    data.mkdir(parents=True, exist_ok=True)
    for part in ("train", "valid", "test"):
        lines = (cls_books / f"{part}.review.spm").read_text(encoding="utf-8").splitlines()
        labels = (cls_books / f"{part}.label").read_text(encoding="utf-8").split()
        rows = zip(lines, labels, strict=True)
        with gzip.open(data / f"{part}.jsonl.gz", "wt", encoding="utf-8") as file:
            for line, label in rows:
                text = line.replace(" ", "").replace("\u2581", " ").strip()
                file.write(json.dumps({"text": text, "label": {"0": "neg", "1": "pos"}[label]}) + "\n")


def _finetune(cls_books: Path, folder: Path, start: dict[str, Any]) -> None:
    recipe = tomllib.loads(RECIPE.read_text())
    settings = recipe["head"] | recipe["adaptation"] | recipe["training"] | recipe["model"]
    test = {"validation": cls_books / "test.review.spm", "validation_label_file": cls_books / "test.label"}
    train = {"train": cls_books / "train.review.spm", "label_file": cls_books / "train.label"}
    files = {name: str(file) for name, file in (train | test).items()}
    hs.finetune(out=folder, resume=True, threads=1, **settings, **files, **start)
    print(f"{folder.name}: {_accuracies(folder)[-1]:.4f}", flush=True)


def _accuracies(run: Path) -> list[float]:
    """The accuracy after each epoch."""
    lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [line["eval_accuracy"] for line in lines if "eval_accuracy" in line and line["step"]]


if __name__ == "__main__":
    app()
