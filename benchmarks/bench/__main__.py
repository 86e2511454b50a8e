"""Run the bench.

make bench                                             # all rows on the CPU, under 15 minutes
make bench ROWS=1,4
PYTHONPATH=benchmarks python -m bench --device cuda --json bench-gpu.json
"""

import argparse
import json
import platform
import subprocess
import sys
import time
from datetime import UTC, datetime
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

import torch

from .row import Measured, Setting

ROWS = {
    1: ("causal pre-training step", "row_pretrain:causal"),
    2: ("masked pre-training step", "row_pretrain:masked"),
    3: ("GPT-2 small step", "row_pretrain:gpt2"),
    4: ("fine-tuning an epoch on ragged reviews", "row_finetune:finetune"),
    5: ("classifying ragged reviews", "row_classify:classify"),
    6: ("greedy generation of 200 tokens", "row_generate:generate"),
    7: ("tokenising and storing text", "row_store:store"),
    8: ("start-up", "row_startup:start_up"),
    9: ("growth of pre-training", "row_growth:growth"),
    10: ("memory on large inputs", "row_large_inputs:large_inputs"),
    11: ("small jobs of a study", "row_workers:small_jobs"),
    12: ("a whole study, old-demo.toml", "row_workers:old_demo"),
    13: ("FSDP on one device", "row_sharded:sharded"),
}
ON_REQUEST = (12, 13)
"""Rows that run only if they are named: row 12 takes many minutes, and row 13 is meant for a GPU."""
PACKAGES = ("headswap", "torch", "transformers", "datasets", "onnxruntime", "tokenizers")


def main() -> None:
    """Parse the arguments, run the rows, print and save the results."""
    parser = argparse.ArgumentParser(prog="bench", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--rows", default="all", help="numbers of rows, such as 1,4; default: all but 12 and 13")
    parser.add_argument("--rounds", type=int, default=5, help="number of rounds; in each every side works once")
    parser.add_argument("--json", type=Path, help="write the results to this file; other rows in it are kept")
    parser.add_argument("--tiny", action="store_true", help="shapes that take a few seconds, to test the bench itself")
    given = parser.parse_args()
    chosen = (
        [number for number in ROWS if number not in ON_REQUEST]
        if given.rows == "all"
        else [int(number) for number in given.rows.split(",")]
    )
    if unknown := [number for number in chosen if number not in ROWS]:
        parser.error(f"there is no row {unknown[0]}: rows are 1 to {len(ROWS)}")
    setting = Setting(given.device, given.rounds, given.tiny)
    for number in chosen:
        title, place = ROWS[number]
        start = time.perf_counter()
        module, _, name = place.partition(":")
        found = getattr(import_module(f"bench.{module}"), name)(setting)
        seconds = time.perf_counter() - start
        print(f"\n{number}. {title} ({seconds:.0f} s)", flush=True)
        for measured in found:
            print(in_words(measured), flush=True)
        if given.json and found:
            entry = {"title": title, "seconds": round(seconds, 1), "date": today(), "threads": torch.get_num_threads()}
            entry["contests"] = _as_json(found)
            save(given.json, setting, number, entry)


def in_words(measured: Measured) -> str:
    """A contest as a few lines of text."""
    lines = [f"  {measured.title}"]
    for side in measured.sides:
        if side["failure"]:
            lines.append(f"    {side['name']:<28} did not run: {side['failure']}")
        else:
            lines.append(f"    {side['name']:<28} {side['median']:>12,.1f} {measured.unit}")
    lines += [f"    headswap / {ratio.peer:<17} {ratio}" for ratio in measured.ratios]
    lines += [f"    {name:<36} {value:,.3f}" for name, value in measured.measures.items()]
    lines += [f"    floor: {measured.floor}"] if measured.floor else []
    lines += [f"    note: {measured.note}"] if measured.note else []
    for target in measured.as_json()["targets"]:
        sign, value = "<=" if target["is_most"] else ">=", target["value"]
        verdict = "met" if target["is_met"] else "MISSED" if value is not None else "not measured"
        lines.append(f"    target: {target['what']} {sign} {target['wanted']:,g}: {verdict}")
    return "\n".join(lines)


def save(file: Path, setting: Setting, number: int, entry: dict[str, Any]) -> None:
    """Write a row into the file; other rows are kept."""
    content = json.loads(file.read_text()) if file.exists() else {}
    machine = about(setting.device)
    rows = content.get("rows", {}) | {str(number): entry | {"ceiling": machine["ceiling"]}}
    content = {"machine": machine, "rows": dict(sorted(rows.items()))}
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def about(device: str) -> dict[str, Any]:
    """The machine of the figures, with its measured peak rates."""
    from .floor import floor_of

    return {
        "date": today(), "device": torch.cuda.get_device_name() if device == "cuda" else _processor(),
        "threads": torch.get_num_threads(), "python": platform.python_version(),
        "versions": {name: _version(name) for name in PACKAGES}, "revision": _revision(),
        "ceiling": vars(floor_of(device)),
    }  # fmt: skip


def today() -> str:
    """The date of a figure."""
    return datetime.now(UTC).date().isoformat()


def _as_json(found: list[Measured]) -> list[dict[str, Any]]:
    return [measured.as_json() for measured in found]


def _processor() -> str:
    from headswap.training.device import _processor as name

    flags = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    return f"{name()}, {torch.get_num_threads()} cores{', AVX512-BF16' if 'avx512_bf16' in flags else ''}"


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _revision() -> str | None:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return done.stdout.strip() or None


if __name__ == "__main__":
    sys.exit(main())
