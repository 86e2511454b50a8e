"""Label worth: how many labels one arm needs to reach the score of another, and where it catches up.

Between budgets a curve is interpolated linearly in the logarithm of the labels. The interval contains every number of
labels at which the 95 % interval of the difference contains zero (a confidence set by test inversion), so it assumes
nothing about the curve beyond the interpolation. Scores are matrices of seeds x test texts, or of bases x test texts
where a study has several bases. Pure functions on numbers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from headswap.study.statistics.significance import FEWEST_SEEDS_FOR_A_CLAIM, Interval, crossed_line, crossed_mean

STEPS_PER_BUDGET = 100


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


def label_worth(
    arm: np.ndarray, other: Mapping[int, np.ndarray], *, labels: int, least_error: float | None = None
) -> Worth:
    """The worth of an arm's scores (seeds x texts, at `labels` labels) in labels of the other arm.

    `other` has the scores of the other arm per budget, with the same seeds and texts.
    """
    budgets = sorted(other)
    means = np.array([other[budget].mean() for budget in budgets])
    crossing = _crossing(budgets, means, float(arm.mean()))
    is_below = crossing is not None and crossing <= budgets[0] and bool(means[0] > arm.mean())
    low, high = _bounds(arm, other, least_error) if len(arm) >= FEWEST_SEEDS_FOR_A_CLAIM else (None, None)
    return Worth(
        labels=labels,
        times=None if crossing is None or is_below else crossing / labels,
        low=None if low is None else low / labels,
        high=None if high is None else high / labels,
        is_beyond=crossing is None,
        is_below=is_below,
        smallest=budgets[0] / labels,
        largest=budgets[-1] / labels,
        count=len(arm),
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


def catch_up(
    arm: Mapping[int, np.ndarray], other: Mapping[int, np.ndarray], *, least_error: float | None = None
) -> CatchUpPoint | None:
    """Where an arm's gain over another ends; None without a gain at the smallest budget."""
    budgets = sorted(set(arm) & set(other))
    gaps = {budget: arm[budget] - other[budget] for budget in budgets}
    if len(budgets) < 2:
        return None
    if not crossed_mean(gaps[budgets[0]], least_error=least_error).interval().is_above_zero:
        return None
    found = _along(gaps, least_error)

    def first(matches: Callable[[Interval], bool]) -> float | None:
        return next((labels for labels, gap in found if matches(gap)), None)

    return CatchUpPoint(
        first(lambda gap: gap.mean <= 0),
        first(lambda gap: not gap.is_above_zero),
        first(lambda gap: gap.is_below_zero),
        budgets[-1],
    )


def _along(curve: Mapping[int, np.ndarray], least_error: float | None) -> list[tuple[float, Interval]]:
    """The 95 % interval of a mean at numbers of labels from the smallest budget to the largest."""
    budgets = sorted(curve)
    found: list[tuple[float, Interval]] = []
    for start, end in pairwise(budgets):
        weights = np.linspace(0, 1, STEPS_PER_BUDGET, endpoint=False)
        line = crossed_line(curve[start], curve[end] - curve[start], weights.tolist(), least_error=least_error)
        at = start * (end / start) ** weights
        found += [(float(labels), mean.interval()) for labels, mean in zip(at, line, strict=True)]
    last = crossed_mean(curve[budgets[-1]], least_error=least_error)
    return [*found, (float(budgets[-1]), last.interval())]


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


def _bounds(
    arm: np.ndarray, other: Mapping[int, np.ndarray], least_error: float | None
) -> tuple[float | None, float | None]:
    """The fewest and the most labels that the test does not reject; None is beyond the budgets tried."""
    found = _along({budget: arm - values for budget, values in other.items()}, least_error)
    # Fewest: the first place where the arm is not better. Most: the last place where the other arm is not better.
    first = next((place for place, (_, gap) in enumerate(found) if not gap.is_above_zero), None)
    last = next((place for place in range(len(found) - 1, -1, -1) if not found[place][1].is_below_zero), None)
    low = found[-1][0] if first is None else None if first == 0 else found[first][0]
    high = found[0][0] if last is None else None if last == len(found) - 1 else found[last][0]
    return low, high
