"""Heads that score labels by dot products against heads that score them by cosines, with 34 classes.

    python benchmarks/head_similarity.py prepare DATA             # on any CPU, once; needs headswap[data]
    python benchmarks/head_similarity.py run DATA OUT --jobs 4    # on a GPU: runs what is missing, prints the table
    python benchmarks/head_similarity.py table OUT                # prints the table again

`prepare` splits the training set of chitchat: 1,000 conversations are scored, the labels are drawn from the others. The
test set of chitchat is not read. `run` is recipes/chitchat-study.toml on this split, once with `--head-similarity dot`
and once with `cosine`; all other settings are equal.
"""

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from cyclopts import App
from seed_means import in_points, mean_interval, paired_difference, study_values

app = App(help=__doc__)
RECIPE = Path(__file__).parent.parent / "recipes" / "chitchat-study.toml"
BASELINES = ("majority", "tfidf")
ARMS = ",".join([*BASELINES, "scratch,pretrained,box,adapted"])
NUM_SCORED = 1_000
HEADS = ("dot", "cosine")


@app.command
def prepare(data: Path, /) -> None:
    """Write train.jsonl, scored.jsonl and corpus.jsonl into the folder DATA."""
    from headswap.data.packaged_sets import CHITCHAT

    splits = CHITCHAT.load()
    rows = [{"text": example.text, "label": example.label} for example in splits.train]  # shuffled by label
    _write(data / "scored.jsonl", rows[:NUM_SCORED])
    _write(data / "train.jsonl", rows[NUM_SCORED:])
    scored = {row["text"] for row in rows[:NUM_SCORED]}
    _write(
        data / "corpus.jsonl", ({"text": document.text} for document in splits.corpus if document.text not in scored)
    )


@app.command
def run(data: Path, out: Path, /, *, jobs: int = 4) -> None:
    """Run one study per head; finished jobs are not run again."""
    files = ["--train", data / "train.jsonl", "--test", data / "scored.jsonl", "--corpus", data / "corpus.jsonl"]
    for head in HEADS:
        command = [sys.executable, "-m", "headswap", "study", "--config", RECIPE, *files, "--arms", ARMS]
        command += ["--head-similarity", head, "--out", out / head, "--jobs", jobs, "--threads", 1]
        subprocess.run([str(part) for part in command], check=True)
    table(out)


@app.command
def table(out: Path, /) -> None:
    """Print the accuracies of both heads and their differences, paired by seed."""
    found = {head: study_values(out / head / "results.json") for head in HEADS}
    print("| arm | labels | dot | cosine | cosine - dot, points | seeds |\n|---|---|---|---|---|---|")
    for arm, labels in sorted(found["dot"].keys() & found["cosine"].keys()):
        if arm in BASELINES:
            continue
        dot, cosine = found["dot"][arm, labels], found["cosine"][arm, labels]
        seeds = sorted(dot.keys() & cosine.keys())
        pairs = [[values[seed] for seed in seeds] for values in (dot, cosine)]
        gain = paired_difference(pairs[1], pairs[0])
        means = " | ".join(f"{mean_interval(values).mean:.3f}" for values in pairs)
        print(f"| {arm} | {labels:,} | {means} | {in_points(gain)} | {len(seeds)} |")


def _write(file: Path, rows: Iterable[dict[str, str]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


if __name__ == "__main__":
    app()
