"""The test of a study: is a mean over seeds and test texts different from zero? Pure functions on numbers.

Seeds and test texts are both samples. With other seeds, or with other test texts, the same two arms would have another
difference. So the values of a comparison are a matrix, one row per seed and one column per test text, and both are
random effects that are crossed (every seed is scored on every text). The variance of the mean is estimated from the
mean squares of a two-way analysis of variance:

    (MS_seed + max(0, MS_text - MS_residual)) / (seeds * texts)

With few seeds their mean square can be small by chance. Two bounds limit this, both quartiles of the chi-square
distribution. MS_seed is at least the lower quartile of what the residual variance alone gives. The degrees of freedom
are Satterthwaite's, but computed with the upper limit of the one-sided 75 % interval of MS_seed; with MS_seed itself
the test has up to 7 % false positives at a level of 5 % with 3 seeds. MS_text has 2 (texts - 1) / (kurtosis - 1)
degrees of freedom, at most texts - 1: its variance is larger where a few texts decide, such as those of a rare label in
macro-F1. If all variation is between seeds, this is the paired t test over seeds. If all of it is between texts, and
the values have no heavy tails, it is the t test over texts. docs/verdicts.md has the error rates and the power.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

FEWEST_SEEDS_FOR_A_CLAIM = 3
ALPHA = 0.05
POWER = 0.8
MOST_SEEDS = 1_000
QUARTILE = 0.25
LOOK_DRAWS = 20_000
CONSTANT = 1e-12
"""Variance below which values count as equal, relative to their mean square."""
TINY = 1e-300
"""Instead of a standard error of zero."""


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


@dataclass(frozen=True)
class CrossedMean:
    """The mean of a matrix of seeds x texts, and the mean squares that its error is computed from."""

    mean: float
    num_seeds: int
    num_texts: int
    seeds: float
    """Mean square of the seeds, with its lower bound; 0 with one seed."""
    texts: float
    residual: float
    text_degrees: float
    """Degrees of freedom of the mean square of the texts."""
    is_over_texts: bool = False
    """Whether only the texts are a sample: there is one answer per text, and no seed."""
    least_error: float = 0.0
    """The standard error is at least this: what one example can change, since few values can be equal by chance."""

    @property
    def of_texts(self) -> float:
        """The part of the texts' mean square that is due to differences between texts."""
        return max(0.0, self.texts - self.residual)

    @property
    def standard_error(self) -> float:
        """Of the mean, over seeds and texts."""
        variance = (self.seeds + self.of_texts) / (self.num_seeds * self.num_texts)
        return max(math.sqrt(variance), self.least_error, TINY)

    @property
    def degrees_of_freedom(self) -> float:
        """Satterthwaite's, with the upper bound of the seeds' mean square."""
        of_seeds, of_texts = self.num_seeds - 1, self.text_degrees
        if self.is_over_texts:
            return of_texts
        bound = self.seeds / _lower_quartile(of_seeds)
        of_residual = of_seeds * (self.num_texts - 1)
        parts = bound**2 / of_seeds + self.texts**2 / of_texts + self.residual**2 / of_residual
        return max(of_seeds, (bound + self.of_texts) ** 2 / parts) if parts > 0 else of_seeds

    @property
    def can_be_tested(self) -> bool:
        """Whether there are enough seeds and texts for a claim."""
        return (self.is_over_texts or self.num_seeds >= FEWEST_SEEDS_FOR_A_CLAIM) and self.num_texts > 1

    def interval(self) -> Interval:
        """The mean with its 95 % interval."""
        from scipy.special import stdtrit

        if not self.can_be_tested:
            return Interval(self.mean, None, None, self.num_seeds)
        half = float(stdtrit(self.degrees_of_freedom, 1 - ALPHA / 2)) * self.standard_error
        return Interval(self.mean, self.mean - half, self.mean + half, self.num_seeds)

    def p_value(self) -> float | None:
        """Two-sided p of the null hypothesis that the mean is zero; None if no claim is possible."""
        from scipy.special import stdtr

        if not self.can_be_tested:
            return None
        return float(2 * stdtr(self.degrees_of_freedom, -abs(self.mean) / self.standard_error))

    def with_seeds(self, num_seeds: int) -> "CrossedMean":
        """What is expected with another number of seeds: the same mean and the same variance components."""
        texts = self.residual + self.of_texts / self.num_seeds * num_seeds
        return replace(self, num_seeds=num_seeds, texts=texts)


def crossed_mean(values: np.ndarray, *, least_error: float | None = None) -> CrossedMean:
    """Analyse a matrix of seeds x texts; `least_error` is 1 / texts by default."""
    return crossed_line(values, np.zeros_like(values), [0.0], least_error=least_error)[0]


def crossed_line(
    start: np.ndarray, slope: np.ndarray, weights: Sequence[float], *, least_error: float | None = None
) -> list[CrossedMean]:
    """Analyse the matrices `start + weight * slope`; the sums of squares are quadratic in the weight."""
    num_seeds, num_texts = start.shape
    least = 1 / num_texts if least_error is None else least_error
    degrees = np.array([num_seeds - 1, num_texts - 1, (num_seeds - 1) * (num_texts - 1)]).clip(1)
    ends, mixed = (_products(start, start), _products(slope, slope)), _products(start, slope)
    by_text = start.mean(axis=0), slope.mean(axis=0)
    found = []
    for weight in weights:
        squares = (ends[0] + 2 * weight * mixed + weight**2 * ends[1]).clip(0.0) / degrees
        seeds, texts, residual = map(float, squares)
        if num_seeds > 1:
            seeds = max(seeds, residual * _lower_quartile(num_seeds - 1))
        mean = float(start.mean() + weight * slope.mean())
        of_texts = _text_degrees(by_text[0] + weight * by_text[1])
        found.append(CrossedMean(mean, num_seeds, num_texts, seeds, texts, residual, of_texts, least_error=least))
    return found


def _text_degrees(by_text: np.ndarray) -> float:
    """Degrees of freedom of the variance of these values: n - 1 for normal values, fewer if they have heavy tails."""
    squares = np.square(by_text - by_text.mean())
    variance = float(squares.mean())
    # For equal values rounding errors are all that is left.
    is_constant = variance <= CONSTANT * float(np.square(by_text).mean())
    kurtosis = 3.0 if is_constant else float(np.square(squares).mean()) / variance**2
    return max(1.0, (len(by_text) - 1) * min(1.0, 2 / (max(kurtosis, 1.0 + CONSTANT) - 1)))


def _products(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Sums of products between seeds, between texts, and of the residuals; sums of squares if both are the same."""
    left, right = left - left.mean(), right - right.mean()
    seeds = left.shape[1] * float(left.mean(axis=1) @ right.mean(axis=1))
    texts = left.shape[0] * float(left.mean(axis=0) @ right.mean(axis=0))
    return np.array([seeds, texts, float(np.vdot(left, right)) - seeds - texts])


def mean_over_texts(values: np.ndarray, *, least_error: float | None = None) -> CrossedMean:
    """Analyse the means per text of a matrix of seeds x texts; its seeds are no sample, so claims are about texts."""
    return replace(crossed_mean(values.mean(axis=0, keepdims=True), least_error=least_error), is_over_texts=True)


def texts_only(values: np.ndarray, *, least_error: float | None = None) -> Interval:
    """The mean with its 95 % interval over texts alone, for fewer seeds than a claim about seeds needs."""
    return replace(mean_over_texts(values, least_error=least_error).interval(), count=len(values))


@cache
def _lower_quartile(degrees: int) -> float:
    """Of a mean square with so many degrees of freedom, divided by its expected value."""
    from scipy.special import chdtri

    return float(chdtri(degrees, 1 - QUARTILE)) / degrees


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Holm-adjusted p values of one family of comparisons; None stays None and does not count."""
    known = sorted((p, place) for place, p in enumerate(p_values) if p is not None)
    adjusted: list[float | None] = [None] * len(p_values)
    largest = 0.0
    for rank, (p, place) in enumerate(known):
        largest = max(largest, min(1.0, p * (len(known) - rank)))
        adjusted[place] = largest
    return adjusted


def power(found: CrossedMean, effect: float, *, alpha: float = ALPHA) -> float:
    """The probability to show a difference of the given size, by the normal approximation of the mean."""
    from scipy.special import ndtr, stdtrit

    limit = float(stdtrit(found.degrees_of_freedom, 1 - alpha / 2))
    return float(ndtr(abs(effect) / found.standard_error - limit))


def seeds_needed(found: CrossedMean, *, alpha: float = ALPHA) -> tuple[int | None, int | None]:
    """The fewest and the most seeds that would show the difference with a power of 80 %.

    The size of the difference is itself uncertain, so the range is that of the mean plus and minus one standard error.
    None is more than 1,000 seeds, or a difference that no number of seeds would show on these test texts.
    """
    if not found.can_be_tested or found.is_over_texts:
        return None, None
    effects = (abs(found.mean) + found.standard_error, abs(found.mean) - found.standard_error)
    fewest, most = (_seeds_for(found, max(0.0, effect), alpha) for effect in effects)
    return fewest, most


def _seeds_for(found: CrossedMean, effect: float, alpha: float) -> int | None:
    counts = range(FEWEST_SEEDS_FOR_A_CLAIM, MOST_SEEDS + 1)

    def reached(number: int) -> float:
        return power(found.with_seeds(number), effect, alpha=alpha)

    return None if reached(MOST_SEEDS) < POWER else counts[bisect_left(counts, POWER, key=reached)]


@cache
def error_of_looks(looks: tuple[int, ...]) -> float:
    """The share of false positives if seeds are added until a test is significant: one test per number of seeds.

    Simulated for the worst case, in which the seeds are the only source of variation.
    """
    from scipy.special import stdtrit

    draws = np.random.default_rng(0).standard_normal((LOOK_DRAWS, max(looks)))
    is_significant = np.zeros(LOOK_DRAWS, dtype=bool)
    for number in looks:
        part = draws[:, :number]
        error = part.std(axis=1, ddof=1) / math.sqrt(number)
        is_significant |= np.abs(part.mean(axis=1)) > float(stdtrit(number - 1, 1 - ALPHA / 2)) * error
    return float(is_significant.mean())
