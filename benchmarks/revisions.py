"""Speed of two revisions of headswap on the same work, for a refactoring.

    git worktree add /tmp/old REVISION
    python benchmarks/revisions.py /tmp/old . TEXTS.txt --rounds 5 [--device cuda]

TEXTS.txt has one text per line. Each round runs every command once with each revision, in turn. On a CPU the figure of
a run is the CPU time of its process, which depends less on other programs than wall time; on a GPU it is wall time. The
table has the median over rounds of new / old (above 1: slower), with the smallest and largest ratio.
"""

import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from cyclopts import App

app = App(help=__doc__)
SHAPE = ["--num-hidden-layers", "4", "--hidden-size", "128", "--intermediate-size", "512", "--max-length", "128"]


@app.default
def compare(old: Path, new: Path, texts: Path, /, *, rounds: int = 5, device: Literal["cpu", "cuda"] = "cpu") -> None:
    """Alternate the commands of both revisions and print the ratios."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        _write_inputs(texts, place)
        seconds: dict[str, dict[str, list[float]]] = {}
        for number in range(rounds):
            trees = [("old", old), ("new", new)]
            for name, tree in trees if number % 2 == 0 else reversed(trees):
                out = place / f"{name}{number}"
                out.mkdir()
                for title, arguments in _commands(place, out, device):
                    used = _run(tree.resolve(), arguments, device, cache=out / "cache")
                    seconds.setdefault(title, {}).setdefault(name, []).append(used)
            print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        print(f"| work, {device} | old, seconds | new, seconds | new / old, median | range |\n|---|---|---|---|---|")
        for title, found in seconds.items():
            ratios = [after / before for before, after in zip(found["old"], found["new"], strict=True)]
            middle = [statistics.median(found[name]) for name in ("old", "new")]
            print(
                f"| {title} | {middle[0]:.2f} | {middle[1]:.2f} | {statistics.median(ratios):.3f} "
                f"| {min(ratios):.3f} to {max(ratios):.3f} |"
            )


def _write_inputs(texts: Path, place: Path) -> None:
    lines = [line for line in texts.read_text(encoding="utf-8").splitlines() if line.strip()]
    (place / "corpus.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    draw = random.Random(0)
    rows = [json.dumps({"text": line, "label": draw.choice(("a", "b"))}) for line in lines[:600]]
    (place / "train.jsonl").write_text("\n".join(rows[:400]) + "\n", encoding="utf-8")
    (place / "test.jsonl").write_text("\n".join(rows[400:]) + "\n", encoding="utf-8")


def _commands(place: Path, out: Path, device: str) -> Iterator[tuple[str, list[str]]]:
    on = ["--device", device]
    corpus, steps = str(place / "corpus.txt"), "200" if device == "cuda" else "12"
    yield "start-up (--help)", ["--help"]
    tokenizer, store = str(out / "tokenizer.json"), str(out / "store")
    yield "training a tokenizer", ["tokenizer", corpus, "--vocab-size", "2000", "--out", tokenizer]
    yield "writing a token store", ["store", corpus, "--tokenizer", tokenizer, "--out", store]
    base = str(out / "base")
    yield "causal pre-training", ["pretrain", store, *SHAPE, "--max-steps", steps, "--out", base, *on]
    masked = ["--objective", "masked", "--out", str(out / "masked")]
    yield "masked pre-training", ["pretrain", store, *SHAPE, "--max-steps", steps, *masked, *on]
    labelled = ["--train", str(place / "train.jsonl"), "--test", str(place / "test.jsonl"), "--num-train-epochs", "2"]
    classifier = str(out / "classifier")
    yield "fine-tuning", ["finetune", "--base", base, *labelled, "--out", classifier, *on]
    yield "classifying", ["predict", classifier, "--file", corpus, "--json", *on]
    yield "generating", ["generate", base, "the", "--max-new-tokens", "120", *on]


def _run(tree: Path, arguments: list[str], device: str, *, cache: Path) -> float:
    """Seconds of one command of a revision; an error if it fails."""
    places = [str(tree / "src"), os.environ.get("PYTHONPATH", "")]
    paths = {"PYTHONPATH": os.pathsep.join(filter(None, places)), "HEADSWAP_CACHE": str(cache)}
    environment = os.environ | paths | {"OMP_NUM_THREADS": "1"}
    before, start = os.times(), time.perf_counter()
    done = subprocess.run([sys.executable, "-m", "headswap", *arguments], capture_output=True, env=environment)
    after, wall = os.times(), time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"{tree}: headswap {' '.join(arguments)}\n{done.stderr.decode()}")
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return wall if device == "cuda" else used


if __name__ == "__main__":
    app()
