"""The loss of the default fine-tuning settings against a grid of 12, of which each seed takes the best on validation.

    python benchmarks/default_grid.py run OUT --jobs 2      # runs what is missing, prints the table
    python benchmarks/default_grid.py table OUT             # prints the table again
    python benchmarks/default_grid.py run OUT --train IMDB_FOLDER/train.jsonl.gz --max-length 512   # other texts

A user who searches has a fifth of the labels as a validation part, so each run holds out the same fifth. The grid has
four learning rates (half to four times the default) and three numbers of epochs; every run of it keeps its best epoch
by validation, as the defaults do. For each seed, the run with the best validation score is taken. Texts: 4,000 training
sentences of Rotten Tomatoes, or rows of `--train`, for the labels; 2,000 others are scored. No test part is read.
"""

import json
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
from box import labelled_rows, write_all
from cyclopts import App
from seed_means import in_points

from headswap.defaults.finetuning import finetuning_rate
from headswap.finetuning.prediction_file import load_predictions
from headswap.study.statistics.significance import crossed_mean

app = App(help=__doc__)
DEFAULT = "box:reviews-en-2"
NUM_POOL, NUM_SCORED = 4_000, 2_000
WIDTH = 256
RATE_FACTORS, EPOCHS = (0.5, 1, 2, 4), (5, 10, 20)


@app.command
def run(
    out: Path,
    /,
    *,
    train: str = "movies:rotten-tomatoes",
    max_length: int = 128,
    budget: int = 400,
    seeds: int = 5,
    jobs: int = 2,
) -> None:
    """Run one study with the defaults and the grid as arms; finished jobs are not run again."""
    out.mkdir(parents=True, exist_ok=True)
    rows = labelled_rows(train)
    random.Random(0).shuffle(rows)
    write_all(out / "pool.jsonl.gz", rows[:NUM_POOL])
    write_all(out / "scored.jsonl.gz", rows[NUM_POOL : NUM_POOL + NUM_SCORED])
    arms = [str(grid_recipe(out, factor, epochs)) for factor in RATE_FACTORS for epochs in EPOCHS]
    command = [
        sys.executable,
        "-m",
        "headswap",
        "study",
        "--train",
        out / "pool.jsonl.gz",
        "--test",
        out / "scored.jsonl.gz",
    ]
    command += ["--arms", ",".join([DEFAULT, *arms]), "--primary-arm", DEFAULT, "--budgets", budget, "--seeds", seeds]
    command += ["--max-length", max_length, "--jobs", jobs, "--threads", 1, "--keep", "results", "--out", out / "study"]
    subprocess.run([str(part) for part in command], check=True)
    table(out)


def grid_recipe(out: Path, factor: float, epochs: int) -> Path:
    """The recipe of one setting of the grid; otherwise it has the defaults."""
    file = out / f"rate-x{factor:g}-{epochs}-epochs.toml"
    rate = factor * finetuning_rate(WIDTH, tokens_per_parameter=None)
    lines = [
        'verb = "finetune"', "[model]", f'base = "{DEFAULT}"', "[training]", f"learning_rate = {rate:g}",
        f"num_train_epochs = {epochs}",
    ]  # fmt: skip
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


@app.command
def table(out: Path, /) -> None:
    """The score of every setting, and the difference of the best by validation to the defaults."""
    plan = json.loads((out / "study/plan.json").read_text(encoding="utf-8"))
    correct: dict[str, dict[int, np.ndarray]] = {}
    validation: dict[str, dict[int, list[float]]] = {}
    for job in plan["jobs"].values():
        folder = out / "study/runs" / job["folder"]
        if job["kind"] != "finetune" or not (folder / "result.json").exists():
            continue
        hits = load_predictions(folder).is_right.astype(float)
        correct.setdefault(job["arm"], {})[job["seed"]] = hits
        found = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        validation.setdefault(job["arm"], {})[job["seed"]] = found["validation_score"]
    print("| setting | validation accuracy | accuracy | seeds |\n|---|---|---|---|")
    for arm, runs in correct.items():
        held_out = np.mean([score[0] for score in validation[arm].values()])
        print(f"| {arm} | {held_out:.3f} | {np.mean(list(runs.values())):.3f} | {len(runs)} |")
    grid = [arm for arm in correct if arm != DEFAULT]
    seeds = sorted(set.intersection(*(set(runs) for runs in correct.values())))
    chosen = {seed: max(grid, key=lambda arm: validation[arm][seed]) for seed in seeds}
    for seed, arm in chosen.items():
        print(f"seed {seed}: best by validation {arm}")
    searched = np.stack([correct[chosen[seed]][seed] for seed in seeds])
    defaults = np.stack([correct[DEFAULT][seed] for seed in seeds])
    difference = in_points(crossed_mean(searched - defaults).interval())
    print(f"grid - defaults, points, {len(seeds)} seeds, over seeds and texts: {difference}")


if __name__ == "__main__":
    app()
