"""Label worth: known values on straight curves, and the coverage of its interval."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from headswap.study.statistics.label_worth import catch_up, label_worth


def by_texts(scores: Sequence[float]) -> np.ndarray:
    """Scores per seed as a matrix of seeds x texts that differs only between seeds."""
    return np.tile(np.array(scores)[:, None], 2_000)


def curve_of(scores: Mapping[int, Sequence[float]]) -> dict[int, np.ndarray]:
    return {labels: by_texts(values) for labels, values in scores.items()}


CURVE = curve_of({100: [0.60, 0.61, 0.59], 400: [0.70, 0.71, 0.69], 1_600: [0.80, 0.81, 0.79]})


def test_the_worth_is_read_from_the_curve_of_the_other_arm() -> None:
    found = label_worth(by_texts([0.70, 0.71, 0.69]), CURVE, labels=100)
    assert found.times == pytest.approx(4.0)
    assert not found.is_beyond
    half = label_worth(by_texts([0.75, 0.76, 0.74]), CURVE, labels=400)
    assert half.times == pytest.approx(2.0), "halfway between 400 and 1,600 on a logarithmic scale is 800"


def test_the_interval_contains_the_estimate() -> None:
    found = label_worth(by_texts([0.72, 0.74, 0.73]), CURVE, labels=100)
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.times < found.high


def test_a_score_that_is_not_reached_is_worth_more_than_the_largest_budget() -> None:
    found = label_worth(by_texts([0.90, 0.91, 0.89]), CURVE, labels=400)
    assert found.is_beyond
    assert (found.times, found.low, found.high) == (None, 4.0, None)
    assert found.largest == 4.0


def test_a_score_below_the_curve_is_worth_less_than_one() -> None:
    found = label_worth(by_texts([0.50, 0.51, 0.49]), CURVE, labels=400)
    assert found.is_below
    assert (found.times, found.high) == (None, 0.25)
    assert not found.is_beyond


def test_a_falling_curve_gives_no_bounds() -> None:
    """Scratch is worse with more labels, so its curve does not show how many labels it would need."""
    found = label_worth(
        by_texts([0.56, 0.57, 0.57]), curve_of({100: [0.55, 0.57, 0.56], 400: [0.53, 0.54, 0.535]}), labels=400
    )
    assert (found.low, found.high) == (None, None)


def test_equal_arms_are_worth_one() -> None:
    found = label_worth(CURVE[400], CURVE, labels=400)
    assert found.times == pytest.approx(1.0)


def test_two_seeds_have_no_interval() -> None:
    curve = {budget: values[:2] for budget, values in CURVE.items()}
    found = label_worth(by_texts([0.70, 0.71]), curve, labels=100)
    assert found.times == pytest.approx(4.0)
    assert (found.low, found.high) == (None, None)


def test_the_other_arm_catches_up_where_the_mean_gain_is_zero() -> None:
    scratch = curve_of({100: [0.60, 0.61, 0.59], 400: [0.70, 0.71, 0.69], 1_600: [0.80, 0.81, 0.79]})
    arm = curve_of({100: [0.65, 0.66, 0.645], 400: [0.72, 0.735, 0.71], 1_600: [0.78, 0.79, 0.765]})
    found = catch_up(arm, scratch)
    assert found is not None
    assert found.labels == pytest.approx(800, rel=0.06), "halfway between +2.2 and -2.2 points"
    assert found.low is not None
    assert found.high is not None
    assert 400 <= found.low < found.labels < found.high <= 1_600


def test_a_gain_at_every_budget_and_no_gain_have_no_catch_up_point() -> None:
    scratch = curve_of({100: [0.60, 0.61, 0.59], 400: [0.70, 0.71, 0.69]})
    ahead = {budget: values + 0.05 for budget, values in scratch.items()}
    found = catch_up(ahead, scratch)
    assert found is not None
    assert (found.labels, found.low, found.high) == (None, None, None)
    assert catch_up(scratch, scratch) is None


@pytest.mark.slow
def test_the_interval_contains_the_true_worth_in_95_percent_of_studies() -> None:
    stream = np.random.default_rng(5)
    budgets = [100, 200, 400, 800, 1_600, 3_200]
    covered = 0
    for _ in range(500):
        curve = {n: by_texts(0.5 + 0.05 * math.log2(n / 50) + stream.normal(0, 0.01, 5)) for n in budgets}
        arm = by_texts(0.5 + 0.05 * math.log2(800 / 50) + stream.normal(0, 0.01, 5))  # worth 2 at 400 labels
        found = label_worth(arm, curve, labels=400)
        covered += (found.low or 0.0) <= 2.0 <= (found.high or math.inf)
    assert 0.92 <= covered / 500 <= 0.985
