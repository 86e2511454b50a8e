"""Statistics with known values."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from headswap.metrics.intervals import wilson_interval
from headswap.study.statistics import (
    Interval,
    bootstrap_interval,
    holm,
    mean_interval,
    paired_difference,
    paired_p_value,
    paired_power,
    permutation_p_value,
    seeds_needed,
)


def test_the_t_interval_has_its_known_value() -> None:
    found = mean_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    # mean 3, standard error sqrt(2.5 / 5), t(0.975, 4) = 2.776445
    assert (found.mean, found.count) == (3.0, 5)
    assert found.low == pytest.approx(3 - 2.7764451052 * 0.5**0.5, abs=1e-9)
    assert found.high == pytest.approx(3 + 2.7764451052 * 0.5**0.5, abs=1e-9)


@given(st.lists(st.floats(0, 1), min_size=3, max_size=12).filter(lambda values: max(values) - min(values) > 1e-6))
def test_the_t_interval_equals_that_of_scipy(values: list[float]) -> None:
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


def test_differences_are_paired() -> None:
    scratch = [0.50, 0.60, 0.70, 0.80]
    pretrained = [0.53, 0.62, 0.74, 0.83]
    found = paired_difference(pretrained, scratch)
    expected = stats.ttest_rel(pretrained, scratch).confidence_interval(0.95)
    assert found.mean == pytest.approx(0.03)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.is_above_zero, "the seeds' own spread of 0.13 is not in it"


def test_different_numbers_of_seeds_are_an_error() -> None:
    with pytest.raises(ValueError, match="shorter"):
        paired_difference([0.1, 0.2], [0.1])


@pytest.mark.parametrize(("hits", "count"), [(0, 10), (10, 10), (7, 10), (829, 1_000), (1, 2), (12_345, 25_000)])
def test_the_wilson_interval_equals_scipys(hits: int, count: int) -> None:
    expected = stats.binomtest(hits, count).proportion_ci(0.95, method="wilson")
    assert wilson_interval(hits / count, count) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_the_spread_is_at_least_the_given_one() -> None:
    agreed = [0.01, 0.01, 0.01]
    assert mean_interval(agreed).low == mean_interval(agreed).high == pytest.approx(0.01)
    found = mean_interval(agreed, least_spread=0.02)
    assert found.high - found.mean == pytest.approx(4.302653 * 0.02 / 3**0.5, rel=1e-6)
    wide = [0.0, 0.1, 0.2]
    assert mean_interval(wide, least_spread=0.02) == mean_interval(wide)
    assert paired_p_value(agreed, [0.0] * 3) == 0.0
    assert paired_p_value(agreed, [0.0] * 3, least_spread=0.02) == pytest.approx(
        2 * stats.t.sf(0.01 / 0.02 * 3**0.5, 2)
    )


def test_an_interval_that_touches_zero_is_not_above_or_below_it() -> None:
    assert not Interval(0.1, 0.0, 0.2, 3).is_above_zero
    assert not Interval(-0.1, -0.2, 0.0, 3).is_below_zero


def test_holm_has_its_known_value() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, None, 0.8]) == [pytest.approx(1.0), None, pytest.approx(1.0)]
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_raises_p_values_and_keeps_their_order(values: list[float]) -> None:
    adjusted = holm(values)
    assert all(after is not None and after >= before - 1e-12 for before, after in zip(values, adjusted, strict=True))
    order = sorted(range(len(values)), key=lambda place: values[place])
    told = [adjusted[place] or 0.0 for place in order]
    assert told == sorted(told)


def test_the_paired_p_value_equals_that_of_scipy() -> None:
    one, other = [0.53, 0.62, 0.74, 0.83], [0.50, 0.60, 0.70, 0.80]
    assert paired_p_value(one, other) == pytest.approx(stats.ttest_rel(one, other).pvalue)
    assert paired_p_value([0.1, 0.2], [0.3, 0.4]) is None
    assert paired_p_value([0.5] * 3, [0.5] * 3) == 1.0
    assert paired_p_value([0.6] * 3, [0.5] * 3) == 0.0


def test_the_permutation_test_starts_at_8_pairs() -> None:
    zeros = [0.0] * 8
    assert permutation_p_value([1.0] * 7, [0.0] * 7) is None
    assert permutation_p_value([1.0] * 8, zeros) == 2 / 2**8
    values = [0.3, -0.1, 0.4, 0.2, 0.5, -0.2, 0.1, 0.6]
    expected = stats.permutation_test((values, zeros), lambda x, y: np.mean(x - y), permutation_type="samples")
    assert permutation_p_value(values, zeros) == pytest.approx(expected.pvalue)


def test_random_sign_flips_are_close_to_the_t_test() -> None:
    values = np.random.default_rng(3).normal(0.4, 1.0, 30)
    found = permutation_p_value(values.tolist(), [0.0] * 30)
    assert found == pytest.approx(stats.ttest_1samp(values, 0.0).pvalue, abs=0.01)


def test_the_bootstrap_interval_is_as_wide_as_the_binomial_one() -> None:
    hits = np.zeros(1_000)
    hits[:800] = 1
    low, high = bootstrap_interval(hits)
    assert (low, high) == pytest.approx(wilson_interval(0.8, 1_000), abs=0.004)
    assert bootstrap_interval(hits) == (low, high), "the same draws every time"


def test_power_has_its_known_value() -> None:
    # G*Power: paired t test, dz = 0.5, two-sided 5 %: 34 pairs for 80 %.
    assert paired_power(0.5, 34) == pytest.approx(0.8078, abs=5e-4)
    spread = [0.5 - 1, 0.5, 0.5 + 1]  # mean 0.5, standard deviation 1
    assert seeds_needed(spread) == 34
    large = [0.031 - 0.0085, 0.031, 0.031 + 0.0085]
    assert seeds_needed(large) == 3, "whatever scipy's noncentral t does far out"
    assert seeds_needed(large, alpha=0.05 / 6) == 5
    assert seeds_needed([0.1, 0.2]) is None
    assert seeds_needed([1e-9 - 1, 1e-9, 1e-9 + 1]) is None, "over 1,000"
    assert seeds_needed([0.2, 0.2, 0.2]) is None


@given(st.floats(0.01, 20), st.integers(3, 1_000), st.sampled_from([0.05, 0.05 / 6, 0.001]))
def test_power_is_between_0_and_1(effect: float, count: int, alpha: float) -> None:
    assert 0 <= paired_power(effect, count, alpha=alpha) <= 1 + 1e-9


# Simulations: what is promised holds over many studies.

NUM_STUDIES = 1_000


def studies(effect: float, *, num_seeds: int = 5, num: int = NUM_STUDIES) -> Iterator[tuple[list[float], list[float]]]:
    """Studies whose seeds shift both arms equally and whose arms differ by `effect` standard deviations."""
    stream = np.random.default_rng(17)
    for _ in range(num):
        shared = stream.normal(0.8, 0.02, num_seeds)
        arms = shared + stream.normal(0, 0.01 / np.sqrt(2), (2, num_seeds))
        yield (arms[0] + effect * 0.01).tolist(), arms[1].tolist()


@pytest.mark.slow
def test_the_t_test_rejects_5_percent_of_null_studies() -> None:
    rejected = sum((paired_p_value(*study) or 0.0) < 0.05 for study in studies(0.0))
    assert 0.035 <= rejected / NUM_STUDIES <= 0.065


@pytest.mark.slow
def test_intervals_contain_the_truth_in_95_percent_of_studies() -> None:
    covered = 0
    for study in studies(2.0):
        found = paired_difference(*study)
        covered += found.low is not None and found.high is not None and found.low <= 0.02 <= found.high
    assert 0.935 <= covered / NUM_STUDIES <= 0.965


@pytest.mark.slow
def test_true_effects_are_found_with_the_computed_power() -> None:
    promised = paired_power(1.7, 5)
    found = sum((paired_p_value(*study) or 0.0) < 0.05 for study in studies(1.7))
    assert found / NUM_STUDIES == pytest.approx(promised, abs=0.03)
    needed = next(count for count in range(3, 100) if paired_power(1.0, count) >= 0.8)
    found = sum((paired_p_value(*study) or 0.0) < 0.05 for study in studies(1.0, num_seeds=needed))
    assert found / NUM_STUDIES == pytest.approx(0.8, abs=0.04)


@pytest.mark.slow
def test_holm_keeps_the_family_wise_error_at_5_percent() -> None:
    each = [paired_p_value(*study) for study in studies(0.0, num=6 * NUM_STUDIES)]
    families = [holm(each[start : start + 6]) for start in range(0, len(each), 6)]
    wrong = sum(any(p is not None and p < 0.05 for p in family) for family in families)
    assert wrong / NUM_STUDIES <= 0.065


@pytest.mark.slow
def test_the_permutation_test_rejects_5_percent_of_null_studies() -> None:
    rejected = sum((permutation_p_value(*study) or 0.0) < 0.05 for study in studies(0.0, num_seeds=9))
    assert 0.03 <= rejected / NUM_STUDIES <= 0.065
