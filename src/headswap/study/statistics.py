"""Statistics of small samples: pure functions on numbers.

Seeds are few, so means over them carry Student's t intervals; arms that share a seed share labels and order, so their
difference is taken pair by pair. The sampling error of one test set is another matter and has its own interval.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

FEWEST_SEEDS_FOR_A_CLAIM = 3
NORMAL_95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate with its 95 % interval; the bounds are None where there are too few values for one."""

    mean: float
    low: float | None
    high: float | None
    count: int

    @property
    def is_above_zero(self) -> bool:
        """Whether the whole interval is positive."""
        return self.low is not None and self.low > 0

    @property
    def is_below_zero(self) -> bool:
        """Whether the whole interval is negative."""
        return self.high is not None and self.high < 0


def mean_interval(values: Sequence[float]) -> Interval:
    """The mean with a t interval over seeds, n - 1 degrees of freedom."""
    from scipy.stats import t

    count = len(values)
    mean = math.fsum(values) / count
    if count < FEWEST_SEEDS_FOR_A_CLAIM:
        return Interval(mean, None, None, count)
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    half = float(t.ppf(0.975, count - 1)) * math.sqrt(variance / count)
    return Interval(mean, mean - half, mean + half, count)


def paired_difference(values: Sequence[float], others: Sequence[float]) -> Interval:
    """The mean of `values - others`, pair by pair, with its t interval."""
    return mean_interval([value - other for value, other in zip(values, others, strict=True)])


def wilson_interval(share: float, count: int) -> tuple[float, float]:
    """The 95 % interval of a share that was counted in `count` independent examples."""
    squared = NORMAL_95**2
    middle = (share + squared / (2 * count)) / (1 + squared / count)
    half = NORMAL_95 / (1 + squared / count) * math.sqrt(share * (1 - share) / count + squared / (4 * count**2))
    return max(0.0, middle - half), min(1.0, middle + half)
