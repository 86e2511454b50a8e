"""Label worth: how many labels one arm needs to reach another, and with how many it has caught up for good.

Between budgets a curve is straight over the logarithm of the labels. The interval holds every number of labels at which
the paired t interval of the difference still contains zero (a confidence set by inversion of the test), so it needs no
assumption about the shape of the curve beyond the straight lines. Pure functions on numbers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headswap.study.statistics import FEWEST_SEEDS_FOR_A_CLAIM, Interval, mean_interval

STEPS = 400


@dataclass(frozen=True, slots=True)
class Worth:
    """Labels that the other arm needs, as a multiple of the budget; None is outside the budgets that were tried."""

    labels: int
    """The budget at which the arm was scored."""
    times: float | None
    low: float | None
    high: float | None
    is_beyond: bool
    """The other arm does not reach the score even with its largest budget."""
    is_below: bool
    """The other arm is there with its smallest budget already."""
    smallest: float
    """The smallest and the largest multiple that could be seen."""
    largest: float
    count: int
    """Seeds."""

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return {name: getattr(self, name) for name in self.__slots__}


def label_worth(arm: Sequence[float], other: Mapping[int, Sequence[float]], *, labels: int) -> Worth:
    """What the scores of an arm (one a seed, with `labels` labels) are worth in labels of the other arm.

    `other` has the scores of the other arm by budget, one a seed, in the same order of seeds.
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


@dataclass(frozen=True, slots=True)
class CatchUp:
    """With how many labels the other arm has caught up; None is beyond the budgets that were tried."""

    labels: float | None
    """Where the mean gain is gone."""
    low: float | None
    """Where the gain is no longer shown."""
    high: float | None
    """From where on a loss is shown."""
    largest: int


def catch_up(arm: Mapping[int, Sequence[float]], other: Mapping[int, Sequence[float]]) -> CatchUp | None:
    """Where an arm's gain over another ends; None unless a gain is shown at the smallest budget."""
    budgets = sorted(set(arm) & set(other))
    gaps = np.array([np.subtract(arm[budget], other[budget]) for budget in budgets], dtype=float)
    if len(budgets) < 2 or not mean_interval(gaps[0].tolist()).is_above_zero:
        return None
    grid = np.linspace(np.log(budgets[0]), np.log(budgets[-1]), STEPS)
    curves = np.stack([np.interp(grid, np.log(budgets), seed) for seed in gaps.T], axis=1)
    found = [mean_interval(curve.tolist()) for curve in curves]

    def first(is_so: Callable[[Interval], bool]) -> float | None:
        return next((float(np.exp(at)) for at, gap in zip(grid, found, strict=True) if is_so(gap)), None)

    return CatchUp(
        first(lambda gap: gap.mean <= 0),
        first(lambda gap: not gap.is_above_zero),
        first(lambda gap: gap.is_below_zero),
        budgets[-1],
    )


def _crossing(budgets: Sequence[int], means: np.ndarray, target: float) -> float | None:
    """The fewest labels at which the mean curve reaches the target; None if it never does."""
    if means[0] >= target:
        return float(budgets[0])
    for place in range(1, len(budgets)):
        if means[place] >= target:
            share = (target - means[place - 1]) / (means[place] - means[place - 1])
            start, end = np.log(budgets[place - 1]), np.log(budgets[place])
            return float(np.exp(start + share * (end - start)))
    return None


def _bounds(budgets: Sequence[int], values: np.ndarray, reached: np.ndarray) -> tuple[float | None, float | None]:
    """Fewest and most labels that the data do not rule out; None where that is beyond the budgets tried."""
    grid = np.linspace(np.log(budgets[0]), np.log(budgets[-1]), STEPS) if len(budgets) > 1 else np.log(budgets[:1])
    curves = np.stack([np.interp(grid, np.log(budgets), seed) for seed in values.T], axis=1)
    found = [mean_interval((reached - curve).tolist()) for curve in curves]
    # Fewest: from here on the arm is not shown to be better. Most: up to here the other one is not shown to be better.
    first = next((place for place, gap in enumerate(found) if not gap.is_above_zero), None)
    last = next((place for place in range(len(grid) - 1, -1, -1) if not found[place].is_below_zero), None)
    low = float(budgets[-1]) if first is None else None if first == 0 else float(np.exp(grid[first]))
    high = float(budgets[0]) if last is None else None if last == len(grid) - 1 else float(np.exp(grid[last]))
    return low, high
