"""Pairs of texts in one sequence against one sequence per text, on the validation parts of SICK and STS-B.

    python benchmarks/pair_encoding.py run DATA OUT --sets sick,stsb --jobs 2   # runs what is missing, prints the table
    python benchmarks/pair_encoding.py table OUT                                # prints the table again

DATA has a folder per set with train.csv.gz and valid.csv.gz (`text`, `text_pair`, `label`); no test part is read. A
study per setting draws labels from train and scores the validation part: the baseline `pairs`, a model from scratch
and the installed base, with otherwise default settings. In the last setting the head begins as a linear model of the
vectors, which is the default.
"""

import subprocess
import sys
from pathlib import Path

from cyclopts import App
from seed_means import in_points, mean_interval, paired_difference, study_values

app = App(help=__doc__)
METRICS = {"sick": "accuracy", "stsb": "pearson"}
TASKS = {"sick": "classify", "stsb": "regress"}
SETTINGS = {
    "joined": ["--pair-encoding", "joined", "--arms", "pairs,scratch,box"],
    "separate": ["--pair-encoding", "separate", "--head-init", "random", "--arms", "pairs,scratch,box"],
    "separate, linear head": ["--pair-encoding", "separate", "--head-init", "linear", "--arms", "pairs,box"],
}


@app.command
def run(
    data: Path, out: Path, /, *, sets: str = "sick,stsb", budgets: str = "100,1000", seeds: int = 3, jobs: int = 2
) -> None:
    """Run one study per set and setting; finished jobs are not run again."""
    for name in sets.split(","):
        files = ["--train", data / name / "train.csv.gz", "--test", data / name / "valid.csv.gz"]
        for setting, flags in SETTINGS.items():
            command = [sys.executable, "-m", "headswap", "study", *files, "--text-pair-column", "text_pair"]
            command += ["--task", TASKS[name], "--metric", METRICS[name], "--max-length", 96, *flags]
            command += ["--budgets", budgets, "--seeds", seeds, "--jobs", jobs, "--threads", 1, "--keep", "results"]
            command += ["--out", out / _folder(name, setting)]
            subprocess.run([str(part) for part in command], check=True)
    table(out)


@app.command
def table(out: Path, /) -> None:
    """Print the scores of every setting, and their differences to `joined`, paired by seed."""
    print("| set, labels, arm | " + " | ".join(SETTINGS) + " |\n|---|" + "---|" * len(SETTINGS))
    for name in METRICS:
        files = {setting: out / _folder(name, setting) / "results.json" for setting in SETTINGS}
        found = {setting: study_values(file) if file.exists() else {} for setting, file in files.items()}
        for arm, labels in sorted({cell for cells in found.values() for cell in cells}):
            cells = [_cell(found[setting].get((arm, labels), {}), found["joined"].get((arm, labels), {}))
                     for setting in SETTINGS]  # fmt: skip
            print(f"| {name}, {labels:,}, {arm} | " + " | ".join(cells) + " |")


def _folder(name: str, setting: str) -> str:
    return f"{name}-{setting.replace(', ', '-').replace(' ', '-')}"


def _cell(values: dict[str, float], joined: dict[str, float]) -> str:
    """The mean of a cell and its difference to `joined`, if it has other runs."""
    text = f"{mean_interval(list(values.values())).mean:.3f}" if values else ""
    seeds = sorted(values.keys() & joined.keys())
    if not seeds or values == joined:
        return text
    return f"{text}, {in_points(paired_difference(*[[each[seed] for seed in seeds] for each in (values, joined)]))}"


if __name__ == "__main__":
    app()
