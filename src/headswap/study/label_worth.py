"""Label worth: how many labels one arm needs to reach the score of another, and where it catches up.

Between budgets a curve is interpolated linearly in the logarithm of the labels. The interval contains every number of
labels at which the paired t interval of the difference contains zero (a confidence set by test inversion), so it
assumes nothing about the curve beyond the interpolation. Pure functions on numbers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from headswap.study.statistics import FEWEST_SEEDS_FOR_A_CLAIM, Interval, mean_interval

STEPS = 400


@dataclass(frozen=True)
class Worth:
    """Labels that the other arm needs, as a multiple of the budget; None is outside the budgets that were tried."""

    labels: int
    """The budget at which the arm was scored."""
    times: float | None
    low: float | None
    high: float | None
    is_beyond: bool
    """Whether the other arm does not reach the score with its largest budget."""
    is_below: bool
    """Whether the other arm reaches the score with its smallest budget."""
    smallest: float
    largest: float
    """The smallest and the largest multiple within the budgets that were tried."""
    count: int
    """Number of seeds."""


def label_worth(arm: Sequence[float], other: Mapping[int, Sequence[float]], *, labels: int) -> Worth:
    """The worth of an arm's scores (one per seed, at `labels` labels) in labels of the other arm.

    `other` has the scores of the other arm per budget, one per seed, in the same order of seeds.
    """
    budgets = sorted(other)
    values = np.array([other[budget] for budget in budgets], dtype=float)
    reached = np.asarray(arm, dtype=float)
    edges = (budgets[0] / labels, budgets[-1] / labels)
    crossing = _crossing(budgets, values.mean(axis=1), float(reached.mean()))
    is_below = crossing is not None and crossing <= budgets[0] and bool(values[0].mean() > reached.mean())
    low, high = _bounds(budgets, values, reached) if len(reached) >= FEWEST_SEEDS_FOR_A_CLAIM else (None, None)
    return Worth(
        labels=labels,
        times=None if crossing is None or is_below else crossing / labels,
        low=None if low is None else low / labels,
        high=None if high is None else high / labels,
        is_beyond=crossing is None,
        is_below=is_below,
        smallest=edges[0],
        largest=edges[1],
        count=len(reached),
    )


@dataclass(frozen=True)
class CatchUpPoint:
    """The number of labels at which the other arm catches up; None is beyond the budgets that were tried."""

    labels: float | None
    """Where the mean gain reaches zero."""
    low: float | None
    """The fewest labels at which the interval of the gain contains zero."""
    high: float | None
    """The fewest labels at which the interval is below zero."""
    largest: int
    """The largest budget."""


def catch_up(arm: Mapping[int, Sequence[float]], other: Mapping[int, Sequence[float]]) -> CatchUpPoint | None:
    """Where an arm's gain over another ends; None without a gain at the smallest budget."""
    budgets = sorted(set(arm) & set(other))
    gaps = np.array([np.subtract(arm[budget], other[budget]) for budget in budgets], dtype=float)
    if len(budgets) < 2 or not mean_interval(gaps[0].tolist()).is_above_zero:
        return None
    grid = np.linspace(np.log(budgets[0]), np.log(budgets[-1]), STEPS)
    curves = np.stack([np.interp(grid, np.log(budgets), seed) for seed in gaps.T], axis=1)
    found = [mean_interval(curve.tolist()) for curve in curves]

    def first(matches: Callable[[Interval], bool]) -> float | None:
        return next((float(np.exp(at)) for at, gap in zip(grid, found, strict=True) if matches(gap)), None)

    return CatchUpPoint(
        first(lambda gap: gap.mean <= 0),
        first(lambda gap: not gap.is_above_zero),
        first(lambda gap: gap.is_below_zero),
        budgets[-1],
    )


def _crossing(budgets: Sequence[int], means: np.ndarray, target: float) -> float | None:
    """The fewest labels at which the mean curve reaches the target; None if it does not."""
    if means[0] >= target:
        return float(budgets[0])
    for place in range(1, len(budgets)):
        if means[place] >= target:
            share = (target - means[place - 1]) / (means[place] - means[place - 1])
            start, end = np.log(budgets[place - 1]), np.log(budgets[place])
            return float(np.exp(start + share * (end - start)))
    return None


def _bounds(budgets: Sequence[int], values: np.ndarray, reached: np.ndarray) -> tuple[float | None, float | None]:
    """The fewest and the most labels that the test does not reject; None is beyond the budgets tried."""
    grid = np.linspace(np.log(budgets[0]), np.log(budgets[-1]), STEPS) if len(budgets) > 1 else np.log(budgets[:1])
    curves = np.stack([np.interp(grid, np.log(budgets), seed) for seed in values.T], axis=1)
    found = [mean_interval((reached - curve).tolist()) for curve in curves]
    # Fewest: the first place where the arm is not better. Most: the last place where the other arm is not better.
    first = next((place for place, gap in enumerate(found) if not gap.is_above_zero), None)
    last = next((place for place in range(len(grid) - 1, -1, -1) if not found[place].is_below_zero), None)
    low = float(budgets[-1]) if first is None else None if first == 0 else float(np.exp(grid[first]))
    high = float(budgets[0]) if last is None else None if last == len(grid) - 1 else float(np.exp(grid[last]))
    return low, high
