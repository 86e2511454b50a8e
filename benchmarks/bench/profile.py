"""Where the time of our training step goes, kernel by kernel.

PYTHONPATH=benchmarks python -m bench.profile --row 1 --device cuda
"""

import argparse
import time
from collections.abc import Callable

from torch.profiler import ProfilerActivity, profile

from .contest import Work, wait
from .ours import finetuning
from .row import Setting
from .row_finetune import BATCH, VOCABULARY
from .row_pretrain import STEPS, _rows, our_gpt2, our_work
from .shapes import gpt2_small, lab_shape, ragged_lengths

MOST_LINES = 14
WARM_UPS = 4
NUM_REVIEWS = {"cpu": 96, "cuda": 960}
WORKS: dict[int, Callable[[str], tuple[Work, int]]] = {
    1: lambda device: (our_work(50_001, _rows(Setting(device, 1)), device, "causal"), STEPS[device]),
    2: lambda device: (our_work(50_001, _rows(Setting(device, 1)), device, "masked"), STEPS[device]),
    3: lambda device: (our_gpt2(gpt2_small(), 64, 1024), STEPS[device]),
    4: lambda device: fine_tuning(device),
}
"""The work of a row, and its number of steps."""


def fine_tuning(device: str) -> tuple[Work, int]:
    """An epoch of row 4."""
    lengths = ragged_lengths(NUM_REVIEWS[device])
    return finetuning(lab_shape(VOCABULARY), lengths, batch=BATCH, device=device), -(-len(lengths) // BATCH)


def main() -> None:
    """Warm up, measure the time without a profiler, then the shares with one."""
    parser = argparse.ArgumentParser(prog="bench.profile", description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--row", type=int, choices=tuple(WORKS), default=1)
    given = parser.parse_args()
    work, steps = WORKS[given.row](given.device)
    for _ in range(WARM_UPS):
        work()
    wait(given.device)
    start = time.perf_counter()
    tokens = work()
    wait(given.device)
    seconds = time.perf_counter() - start
    on_gpu = given.device == "cuda"
    with profile(activities=[ProfilerActivity.CUDA if on_gpu else ProfilerActivity.CPU]) as profiled:
        work()
        wait(given.device)
    times = {
        event.key: (event.self_device_time_total if on_gpu else event.self_cpu_time_total, event.count)
        for event in profiled.key_averages()
    }
    total = sum(taken for taken, _ in times.values())
    print(
        f"row {given.row}: {tokens / seconds:,.0f} tok/s, {1e3 * seconds / steps:.2f} ms per step, of which the "
        f"{'device works' if on_gpu else 'operators take'} {total / 1e3 / steps:.2f} ms"
    )
    for name, (taken, count) in sorted(times.items(), key=lambda entry: -entry[1][0])[:MOST_LINES]:
        print(f"{100 * taken / total:5.1f} %  {taken / 1e3 / steps:7.3f} ms  {count / steps:6.1f} x  {name[:90]}")


if __name__ == "__main__":
    main()
