"""Statistics of small samples: pure functions on numbers.

There are few seeds, so means over seeds have Student's t intervals. Arms with the same seed are trained on the same
labels in the same order, so their differences are paired by seed. The sampling error of the test set is separate and
has its own bootstrap interval.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FEWEST_SEEDS_FOR_A_CLAIM = 3
FEWEST_SEEDS_FOR_A_PERMUTATION = 8  # with n pairs the smallest two-sided p is 2 / 2^n: .0625 with 5, .0078 with 8
MOST_PAIRS_FOR_ALL_SIGNS = 14
DRAWS = 2_000
ALPHA = 0.05
POWER = 0.8
MOST_SEEDS = 1_000
CERTAIN = 8.0  # standard errors above the limit: the power is 1


@dataclass(frozen=True)
class Interval:
    """An estimate with its 95 % interval; the bounds are None if there are too few values."""

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


def mean_interval(values: Sequence[float], *, least_spread: float = 0.0) -> Interval:
    """The mean with a t interval over seeds, n - 1 degrees of freedom.

    Few values can be equal by chance, so their standard deviation is taken to be at least `least_spread`.
    """
    from scipy.special import stdtrit

    count = len(values)
    mean = math.fsum(values) / count
    if count < FEWEST_SEEDS_FOR_A_CLAIM:
        return Interval(mean, None, None, count)
    half = float(stdtrit(count - 1, 0.975)) * _standard_error(values, mean, least_spread)
    return Interval(mean, mean - half, mean + half, count)


def paired_difference(values: Sequence[float], others: Sequence[float], *, least_spread: float = 0.0) -> Interval:
    """The mean of the paired differences `values - others`, with its t interval."""
    differences = [value - other for value, other in zip(values, others, strict=True)]
    return mean_interval(differences, least_spread=least_spread)


def paired_p_value(values: Sequence[float], others: Sequence[float], *, least_spread: float = 0.0) -> float | None:
    """Two-sided p of the paired t test; None with too few pairs for a claim."""
    from scipy.special import stdtr

    differences = [value - other for value, other in zip(values, others, strict=True)]
    count = len(differences)
    if count < FEWEST_SEEDS_FOR_A_CLAIM:
        return None
    mean = math.fsum(differences) / count
    error = _standard_error(differences, mean, least_spread)
    if error <= 1e-15:  # all differences are equal
        return 1.0 if abs(mean) <= 1e-15 else 0.0
    return float(2 * stdtr(count - 1, -abs(mean) / error))


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm-adjusted p values of one family of comparisons; None stays None and does not count."""
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, place) in enumerate(known):
        largest = max(largest, min(1.0, p * (len(known) - rank)))
        adjusted[place] = largest
    return adjusted


def permutation_p_value(values: Sequence[float], others: Sequence[float], *, seed: int = 0) -> float | None:
    """Two-sided p of the sign-flip permutation test: all flips, or random ones for many pairs; None below 8 pairs."""
    differences = np.asarray(values, dtype=float) - np.asarray(others, dtype=float)
    count = len(differences)
    if count < FEWEST_SEEDS_FOR_A_PERMUTATION:
        return None
    observed = abs(differences.mean()) - 1e-12
    if count <= MOST_PAIRS_FOR_ALL_SIGNS:
        signs = 1.0 - 2.0 * ((np.arange(2**count)[:, None] >> np.arange(count)) & 1)
        return float((np.abs(signs @ differences / count) >= observed).mean())
    signs = np.random.default_rng(seed).choice((-1.0, 1.0), (10 * DRAWS, count))
    extreme = int((np.abs(signs @ differences / count) >= observed).sum())
    return (extreme + 1) / (len(signs) + 1)


def bootstrap_interval(scores: Sequence[float] | np.ndarray, *, seed: int = 0) -> tuple[float, float]:
    """95 % percentile bootstrap interval of the mean score over test examples."""
    scores = np.asarray(scores, dtype=float)
    stream = np.random.default_rng(seed)
    means = np.empty(DRAWS)
    size = max(1, min(DRAWS, 4_000_000 // max(1, len(scores))))
    for start in range(0, DRAWS, size):
        part = means[start : start + size]
        part[:] = scores[stream.integers(0, len(scores), (len(part), len(scores)))].mean(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)


def seeds_needed(
    differences: Sequence[float], *, alpha: float = ALPHA, power: float = POWER, least_spread: float = 0.0
) -> int | None:
    """Pairs that show the observed difference with the given power; None: more than 1,000, or unknown."""
    count = len(differences)
    if count < FEWEST_SEEDS_FOR_A_CLAIM:
        return None
    mean = math.fsum(differences) / count
    spread = _standard_error(differences, mean, least_spread) * math.sqrt(count)
    if spread <= 1e-15 or mean == 0:
        return None
    effect = abs(mean) / spread
    counts = range(FEWEST_SEEDS_FOR_A_CLAIM, MOST_SEEDS + 1)
    if paired_power(effect, MOST_SEEDS, alpha=alpha) < power:
        return None
    return counts[bisect_left(counts, power, key=lambda number: paired_power(effect, number, alpha=alpha))]


def paired_power(effect: float, count: int, *, alpha: float = ALPHA) -> float:
    """Power of the two-sided paired t test for a true effect in standard deviations of the differences."""
    from scipy.special import ndtr, stdtrit
    from scipy.stats import nct

    limit = float(stdtrit(count - 1, 1 - alpha / 2))
    shift = effect * math.sqrt(count)
    if shift > limit + CERTAIN:
        return 1.0
    # scipy's noncentral t returns nan for some large shifts. The lower tail is 0 there, the upper one nearly normal.
    below = float(nct.cdf(-limit, count - 1, shift)) if shift < 2 else 0.0
    above = float(nct.sf(limit, count - 1, shift))
    if math.isnan(above):
        above = float(ndtr((shift - limit) / math.sqrt(1 + limit**2 / (2 * (count - 1)))))
    return above + below


def _standard_error(values: Sequence[float], mean: float, least_spread: float = 0.0) -> float:
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return max(math.sqrt(variance), least_spread) / math.sqrt(len(values))
