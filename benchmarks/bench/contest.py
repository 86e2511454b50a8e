"""A contest: several sides do the same work, one after the other, again and again.

Times on a shared machine wander, so only what stands in one round is compared: a ratio is taken within each round, and
the median over the rounds is told with its range. The order turns every round, so that none is always first.
"""

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch

Work = Callable[[], float]
"""Does a piece of work and returns how much of the unit it was (tokens, texts, megabytes)."""


@dataclass
class Side:
    """One way to do the work; `make` loads what it needs, outside of the clock."""

    name: str
    make: Callable[[], Work]
    warm_up: int = 1
    rates: list[float] = field(default_factory=list)
    set_up_seconds: float = 0.0
    failure: str | None = None


@dataclass(frozen=True)
class Ratio:
    """How often faster headswap is than a peer: median, least and most over the rounds."""

    peer: str
    median: float
    least: float
    most: float

    def __str__(self) -> str:
        return f"{self.median:.2f}x [{self.least:.2f}, {self.most:.2f}]"


def hold(sides: Sequence[Side], *, rounds: int, device: str) -> None:
    """Warm all sides up, then let them work in turn; rates are units a second."""
    works: list[tuple[Side, Work]] = []
    for side in sides:
        as_its_own(side, sides)
        start = time.perf_counter()
        try:
            work = side.make()
            for _ in range(side.warm_up):
                work()
        except Exception as problem:  # a peer that does not run here is told, not hidden
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
            if device == "cuda":  # a side must not pay for the memory that another one keeps
                torch.cuda.empty_cache()
                work()
            wait(device)
            start = time.perf_counter()
            amount = work()
            wait(device)
            side.rates.append(amount / (time.perf_counter() - start))


def as_its_own(side: Side, sides: Sequence[Side]) -> None:
    """Peers may take cuDNN's attention; our side does not (docs/decisions/0006-no-cudnn-attention.md)."""
    torch.backends.cuda.enable_cudnn_sdp(side is not sides[0])


def ratios(sides: Sequence[Side]) -> list[Ratio]:
    """The first side against each of the others."""
    own = sides[0].rates
    found = []
    for side in sides[1:]:
        if side.rates:
            each = [mine / theirs for mine, theirs in zip(own, side.rates, strict=True)]
            found.append(Ratio(side.name, statistics.median(each), min(each), max(each)))
    return found


def again(work: Work, times: int) -> Work:
    """The same work several times over: on a GPU one step is too short for a clock."""
    return work if times == 1 else lambda: sum(work() for _ in range(times))


def wait(device: str) -> None:
    """Until the device has done what it was given."""
    if device == "cuda":
        torch.cuda.synchronize()
