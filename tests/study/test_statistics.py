"""Statistics with known answers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from headswap.study.statistics import Interval, mean_interval, paired_difference, wilson_interval


def test_the_t_interval_has_its_known_answer() -> None:
    found = mean_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    # mean 3, standard error sqrt(2.5 / 5), t(0.975, 4) = 2.776445
    assert (found.mean, found.count) == (3.0, 5)
    assert found.low == pytest.approx(3 - 2.7764451052 * 0.5**0.5, abs=1e-9)
    assert found.high == pytest.approx(3 + 2.7764451052 * 0.5**0.5, abs=1e-9)


@given(st.lists(st.floats(0, 1), min_size=3, max_size=12).filter(lambda values: max(values) - min(values) > 1e-6))
def test_the_t_interval_equals_scipys(values: list[float]) -> None:
    expected = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    found = mean_interval(values)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=1e-9)


@pytest.mark.parametrize("values", [[0.8], [0.8, 0.9]])
def test_one_or_two_seeds_have_a_mean_and_no_bounds(values: list[float]) -> None:
    found = mean_interval(values)
    assert found.mean == pytest.approx(sum(values) / len(values))
    assert (found.low, found.high) == (None, None)
    assert not found.is_above_zero
    assert not found.is_below_zero


def test_differences_are_taken_pair_by_pair() -> None:
    scratch = [0.50, 0.60, 0.70, 0.80]
    pretrained = [0.53, 0.62, 0.74, 0.83]
    found = paired_difference(pretrained, scratch)
    expected = stats.ttest_rel(pretrained, scratch).confidence_interval(0.95)
    assert found.mean == pytest.approx(0.03)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.is_above_zero, "the seeds' own spread of 0.13 is not in it"


def test_arms_with_different_numbers_of_seeds_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="shorter"):
        paired_difference([0.1, 0.2], [0.1])


@pytest.mark.parametrize(("hits", "count"), [(0, 10), (10, 10), (7, 10), (829, 1_000), (1, 2), (12_345, 25_000)])
def test_the_wilson_interval_equals_scipys(hits: int, count: int) -> None:
    expected = stats.binomtest(hits, count).proportion_ci(0.95, method="wilson")
    assert wilson_interval(hits / count, count) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_an_interval_that_touches_zero_claims_nothing() -> None:
    assert not Interval(0.1, 0.0, 0.2, 3).is_above_zero
    assert not Interval(-0.1, -0.2, 0.0, 3).is_below_zero
