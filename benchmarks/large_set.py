"""Time and scores of fine-tuning on a large labelled set, per batch size, and where the host spends its time.

    python benchmarks/large_set.py --train train.csv --validation valid.csv --test test.csv --task multilabel \
        --label-column labels --label-separator "|" --base box:reviews-en --batch-sizes default,16,32,64 --seeds 3

Every run is a `headswap finetune` in this process. A line per run has its steps, seconds, steps per second and test
score; a table of means per batch size follows. With --profile the first run is made with cProfile, and the functions of
headswap and torch with the largest times on the host are printed.
"""

import argparse
import cProfile
import io
import json
import pstats
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from headswap.finetuning.finetune import finetune

DEFAULT = "default"


def main() -> None:
    """Parse the arguments, run every batch size with every seed, print the figures."""
    given = _arguments()
    profile = cProfile.Profile() if given.profile else None
    found: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as name:
        for seed in range(1, given.seeds + 1):
            for size in given.batch_sizes.split(","):
                if profile:
                    profile.enable()
                line = _run(given, size, seed, Path(name) / f"{size}-{seed}")
                if profile:
                    profile.disable()
                    _print_profile(profile)
                    profile = None
                found.setdefault(size, []).append(line)
                print(json.dumps(line), flush=True)
    print(f"\n{'batch size':>12} {'seconds':>9} {'steps/s':>9} {'score':>8} {'sd':>7}")
    for size, lines in found.items():
        scores = [line["score"] for line in lines]
        spread = statistics.stdev(scores) if len(scores) > 1 else float("nan")
        mean = {name: statistics.mean(line[name] for line in lines) for name in ("seconds", "steps_per_second")}
        row = f"{mean['seconds']:>9.1f} {mean['steps_per_second']:>9.1f} {statistics.mean(scores):>8.4f} {spread:>7.4f}"
        print(f"{size:>12} {row}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    for name in ("train", "test"):
        parser.add_argument(f"--{name}", required=True)
    parser.add_argument("--validation")
    parser.add_argument("--task", default="classify")
    parser.add_argument("--label-column", default="label")
    parser.add_argument("--label-separator", default=",")
    parser.add_argument("--base", default="box:reviews-en-2")
    parser.add_argument("--max-length", type=int, default=64)
    parser.add_argument("--epochs", type=float, default=4)
    parser.add_argument("--max-steps", type=int, help="end earlier, for a profile")
    parser.add_argument("--batch-sizes", default=f"{DEFAULT},16,32,64")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--metric", default="micro_f1", help="the test metric to print")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--profile", action="store_true")
    return parser.parse_args()


def _run(given: argparse.Namespace, size: str, seed: int, out: Path) -> dict[str, Any]:
    """One fine-tuning, timed from its start to its end."""
    data = {"train": given.train, "test": given.test, "task": given.task, "label_column": given.label_column}
    data |= {"validation": given.validation} if given.validation else {}
    data |= {"label_separator": given.label_separator} if given.task == "multilabel" else {}
    length = {"max_steps": given.max_steps} if given.max_steps else {"num_train_epochs": given.epochs}
    training = {"max_length": given.max_length, "seed": seed, **length}
    training |= {"batch_size": int(size)} if size != DEFAULT else {}
    sections: dict[str, Any] = {
        "data": data, "model": {"base": given.base}, "training": training, "machine": {"device": given.device},
    }  # fmt: skip
    start = time.perf_counter()
    run = finetune(out=out, sections=sections, with_baselines=False, reloads_in_fresh_process=False)
    result = run.result
    return {
        "batch_size": size, "seed": seed, "steps": result["steps"], "whole_seconds": time.perf_counter() - start,
        "seconds": result["seconds"], "steps_per_second": result["steps"] / result["seconds"],
        "score": result["test"][given.metric], "device": result["device"],
    }  # fmt: skip


def _print_profile(profile: cProfile.Profile) -> None:
    text = io.StringIO()
    pstats.Stats(profile, stream=text).sort_stats("tottime").print_stats(35)
    print(text.getvalue(), flush=True)


if __name__ == "__main__":
    main()
