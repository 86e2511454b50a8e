"""`headswap estimate --measure` beside the measured speed of 1, 2 and 4 CPU processes under torchrun (gloo).

    python benchmarks/estimate_check.py --processes 1 2 4 --repeats 3

Each repeat estimates with one process and one thread, then trains with N processes of one thread each. The first steps
are not counted. It prints one line per run, and per number of processes the range of estimated / measured time. The
estimate for N processes assumes that each has a core of its own.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SHAPE = ["--preset", "small", "--max-length", "64", "--batch-size", "8", "--precision", "fp32"]
VOCABULARY, FIRST_COUNTED = 4000, 4


def main() -> None:
    """Print one line per run and one per number of processes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--parallel", nargs="+", default=["ddp"], choices=["ddp", "fsdp"])
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--steps", type=int, default=24)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        _write_store(folder)
        ratios: dict[tuple[str, int], list[float]] = {}
        for repeat in range(given.repeats):
            for parallel in given.parallel:
                for count in given.processes:
                    line = _one(folder, count, parallel, given.steps)
                    ratios.setdefault((parallel, count), []).append(line["estimated_over_measured"])
                    print(json.dumps({"repeat": repeat, **line}), flush=True)
    for (parallel, count), found in ratios.items():
        print(json.dumps({"parallel": parallel, "processes": count, "least": min(found), "largest": max(found)}))


def _write_store(folder: Path) -> None:
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 9))) for _ in range(VOCABULARY)]
    lines = "".join(" ".join(draw.choices(words, k=120)) + "\n" for _ in range(2000))
    (folder / "corpus.txt").write_text(lines, encoding="utf-8")
    _headswap("tokenizer", f"{folder}/corpus.txt", "--vocab-size", str(VOCABULARY), "--out", f"{folder}/tokenizer.json")
    _headswap("store", f"{folder}/corpus.txt", "--tokenizer", f"{folder}/tokenizer.json", "--out", f"{folder}/store")


def _headswap(*flags: str, launcher: tuple[str, ...] = ()) -> str:
    command = [sys.executable, *launcher, "-m", "headswap", *flags]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def _one(folder: Path, count: int, parallel: str, steps: int) -> dict[str, Any]:
    plan = [*SHAPE, "--parallel", parallel]
    flags = ["--vocab-size", str(VOCABULARY), "--gpus", str(count), "--tokens", "1e6", "--measure", "--json"]
    estimate = json.loads(_headswap("estimate", *plan, *flags))
    out = folder / "run"
    _headswap(
        "pretrain", str(folder / "store"), *plan, "--device", "cpu", "--threads", "1", "--max-steps", str(steps),
        "--eval-steps", str(10 * steps), "--logging-steps", "1", "--out", str(out), "--overwrite", "--quiet",
        launcher=("-m", "torch.distributed.run", "--nproc-per-node", str(count)),
    )  # fmt: skip
    records = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    trained = [record for record in records if "train_loss" in record]
    first, last = trained[FIRST_COUNTED - 1], trained[-1]
    speed = (last["tokens"] - first["tokens"]) / (last["seconds"] - first["seconds"])
    return {
        "parallel": parallel, "processes": count, "estimated_tokens_per_second": round(estimate["tokens_per_second"]),
        "measured_tokens_per_second": round(speed), "label": estimate["labels"]["seconds"],
        "estimated_over_measured": round(speed / estimate["tokens_per_second"], 2),
    }  # fmt: skip


if __name__ == "__main__":
    main()
