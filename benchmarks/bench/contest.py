"""A contest: several sides do the same work, one after the other, in several rounds.

Times on a shared machine vary, so only times of one round are compared: a ratio is taken within each round, and the
median over the rounds is reported with its range. The order rotates with every round, so that no side is always first.
"""

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

Work = Callable[[], float]
"""Does some work and returns its amount in units (tokens, texts, megabytes)."""


@dataclass
class Side:
    """One way to do the work; `make` prepares it and is not timed."""

    name: str
    make: Callable[[], Work]
    warm_up: int = 1
    is_ours: bool = False
    """Whether it is headswap too, beside the first side."""
    rates: list[float] = field(default_factory=list)
    set_up_seconds: float = 0.0
    failure: str | None = None


@dataclass(frozen=True)
class Ratio:
    """Speed of headswap relative to a peer: median, smallest and largest over the rounds."""

    peer: str
    median: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{self.median:.2f}x [{self.least:.2f}, {self.most:.2f}]"


def hold(sides: Sequence[Side], *, rounds: int, device: str) -> None:
    """Warm up all sides, then run them in rounds; rates are units per second."""
    works: list[tuple[Side, Work]] = []
    for side in sides:
        as_its_own(side, sides)
        start = time.perf_counter()
        try:
            work = side.make()
            for _ in range(side.warm_up):
                work()
        except Exception as problem:  # a peer that cannot run here is reported
            side.failure = f"{type(problem).__name__}: {str(problem).splitlines()[0][:200]}"
            if side is sides[0]:
                raise
            continue
        wait(device)
        side.set_up_seconds = time.perf_counter() - start
        works.append((side, work))
    for number in range(rounds):
        for side, work in works[number % len(works) :] + works[: number % len(works)]:
            gc.collect()
            as_its_own(side, sides)
            if device == "cuda":  # memory cached by another side must not slow this one down
                torch.cuda.empty_cache()
                work()
            wait(device)
            start = time.perf_counter()
            amount = work()
            wait(device)
            side.rates.append(amount / (time.perf_counter() - start))


def as_its_own(side: Side, sides: Sequence[Side]) -> None:
    """Peers may use cuDNN's attention; headswap does not (docs/decisions/0006-no-cudnn-attention.md)."""
    torch.backends.cuda.enable_cudnn_sdp(side is not sides[0] and not side.is_ours)


def ratios(sides: Sequence[Side]) -> list[Ratio]:
    """The first side relative to each of the others."""
    own = sides[0].rates
    found = []
    for side in sides[1:]:
        if side.rates:
            each = [mine / theirs for mine, theirs in zip(own, side.rates, strict=True)]
            found.append(Ratio(side.name, statistics.median(each), min(each), max(each)))
    return found


def again(work: Work, times: int) -> Work:
    """The same work several times: on a GPU one step is too short to be timed."""
    return work if times == 1 else lambda: sum(work() for _ in range(times))


def wait(device: str) -> None:
    """Wait until the device has finished."""
    if device == "cuda":
        torch.cuda.synchronize()
