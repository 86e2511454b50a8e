"""The test over seeds and texts: known values, its two limits, error rates by simulation; Holm's correction; seeds."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from headswap.metrics.intervals import wilson_interval
from headswap.study.statistics.significance import (
    MOST_SEEDS,
    Interval,
    crossed_line,
    crossed_mean,
    error_of_looks,
    holm,
    power,
    seeds_needed,
    texts_only,
)
from headswap.study.statistics.unit_scores import grouped_values


def test_the_mean_squares_have_their_known_values() -> None:
    values = np.array([[1.0, 2.0, 3.0, 6.0], [2.0, 2.0, 5.0, 7.0], [0.0, 2.0, 1.0, 5.0]])
    found = crossed_mean(values)
    # Row means 3, 4, 2 around 3; column means 1, 2, 3, 6 around 3.
    assert (found.mean, found.num_seeds, found.num_texts) == (3.0, 3, 4)
    assert found.seeds == pytest.approx(4 * 2 / 2)
    assert found.texts == pytest.approx(3 * 14 / 3)
    assert found.residual == pytest.approx(((values - 3) ** 2).sum() / 6 - (8 + 42) / 6)
    assert found.standard_error == pytest.approx(np.sqrt((4 + 14 - found.residual) / 12))


@given(st.lists(st.floats(-1, 1), min_size=3, max_size=12).filter(lambda values: np.std(values) > 0.01))
def test_without_differences_between_texts_it_is_the_t_test_over_seeds(values: list[float]) -> None:
    found = crossed_mean(np.tile(np.array(values)[:, None], 1_000))
    expected = stats.ttest_1samp(values, 0.0)
    span = expected.confidence_interval(0.95)
    assert found.p_value() == pytest.approx(expected.pvalue, rel=1e-6, abs=1e-12)
    assert (found.interval().low, found.interval().high) == pytest.approx((span.low, span.high), abs=1e-9)


def test_without_differences_between_seeds_it_is_the_t_test_over_texts() -> None:
    texts = np.random.default_rng(3).uniform(-1.0, 1.1, 500)  # no heavy tails
    found = crossed_mean(np.tile(texts, (5, 1)))
    span = stats.ttest_1samp(texts, 0.0).confidence_interval(0.95)
    assert (found.interval().low, found.interval().high) == pytest.approx((span.low, span.high), rel=1e-6)
    assert found.p_value() == pytest.approx(stats.ttest_1samp(texts, 0.0).pvalue, rel=1e-6)


def test_a_few_texts_that_decide_count_as_a_small_sample() -> None:
    """Five of 500 texts have a value that is not 0: their variance is known as badly as that of a small sample."""
    values = np.zeros((5, 500))
    values[:, :5] = [1.0, 1.0, 1.0, 1.0, -1.0]
    found = crossed_mean(values)
    kurtosis = stats.kurtosis(values[0], fisher=False)
    assert found.text_degrees == pytest.approx(499 * 2 / (kurtosis - 1))
    assert found.text_degrees < 11
    assert found.degrees_of_freedom == pytest.approx(found.text_degrees)
    assert crossed_mean(np.tile([0.0, 1.0], (5, 250))).text_degrees == 499
    assert crossed_mean(np.full((5, 500), 0.1)).text_degrees == 499


def test_a_line_of_matrices_is_analysed_as_each_matrix_alone() -> None:
    stream = np.random.default_rng(1)
    start, slope = stream.normal(0.1, 1, (4, 50)), stream.normal(0, 1, (4, 50))
    for weight, found in zip((0.0, 0.3, 1.0), crossed_line(start, slope, [0.0, 0.3, 1.0]), strict=True):
        alone = crossed_mean(start + weight * slope)
        for name in ("mean", "seeds", "texts", "residual", "text_degrees"):
            assert getattr(found, name) == pytest.approx(getattr(alone, name), rel=1e-9)


@pytest.mark.parametrize("num_seeds", [1, 2])
def test_one_or_two_seeds_have_no_test_and_an_interval_over_texts_only(num_seeds: int) -> None:
    values = (np.random.default_rng(2).random((num_seeds, 200)) < 0.7).astype(float)
    found = crossed_mean(values)
    assert found.p_value() is None
    assert (found.interval().low, found.interval().high) == (None, None)
    only = texts_only(values)
    assert only.low is not None
    assert only.high is not None
    assert only.low < values.mean() < only.high
    assert only.high - only.low < 0.15


def test_few_equal_values_are_not_certain() -> None:
    found = crossed_mean(np.ones((3, 5)))
    assert found.standard_error == 1 / 5
    assert found.p_value() is not None
    assert found.p_value() > 0.001
    assert crossed_mean(np.zeros((3, 100))).p_value() == 1.0


def false_positives(num_seeds: int, *, of_seeds: float, of_texts: float, noise: float, draws: int) -> float:
    """The share of p < .05 among matrices whose true mean is zero; the arguments are shares of its variance."""
    stream, num_texts = np.random.default_rng(0), 200
    rejected = 0
    for _ in range(draws):
        seeds = stream.normal(0, np.sqrt(of_seeds * num_seeds), (num_seeds, 1))
        texts = stream.normal(0, np.sqrt(of_texts * num_texts), (1, num_texts))
        rest = stream.normal(0, np.sqrt(noise * num_seeds * num_texts), (num_seeds, num_texts))
        rejected += (crossed_mean(seeds + texts + rest).p_value() or 1.0) < 0.05
    return rejected / draws


@pytest.mark.parametrize("num_seeds", [3, 5, 10])
@pytest.mark.parametrize(
    ("of_seeds", "of_texts", "noise"),
    [(0.0, 0.95, 0.05), (0.0, 0.2, 0.8), (0.9, 0.05, 0.05), (0.3, 0.4, 0.3)],
    ids=["stable", "noisy", "seeds", "mixed"],
)
def test_the_error_rate_is_at_most_5_percent(num_seeds: int, of_seeds: float, of_texts: float, noise: float) -> None:
    found = false_positives(num_seeds, of_seeds=of_seeds, of_texts=of_texts, noise=noise, draws=1_500)
    assert found <= 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / 1_500)
    assert found >= 0.01, "nor is the test much too conservative"


@pytest.mark.parametrize(("hits", "count"), [(0, 10), (10, 10), (7, 10), (829, 1_000), (1, 2), (12_345, 25_000)])
def test_the_wilson_interval_equals_scipys(hits: int, count: int) -> None:
    expected = stats.binomtest(hits, count).proportion_ci(0.95, method="wilson")
    assert wilson_interval(hits / count, count) == pytest.approx((expected.low, expected.high), abs=1e-9)


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
    in_order = [adjusted[place] or 0.0 for place in order]
    assert in_order == sorted(in_order)


def test_the_power_agrees_with_simulation() -> None:
    stream = np.random.default_rng(4)
    draws = stream.normal(0.03, 0.02, (2_000, 6))
    shown = np.mean([stats.ttest_1samp(draw, 0.0).pvalue < 0.05 for draw in draws])
    found = crossed_mean(np.tile(stream.normal(0.0, 1.0, 6)[:, None], 1_000))
    scaled = found.with_seeds(6)
    effect = 0.03 / 0.02 * np.sqrt(scaled.seeds / 1_000)  # in the spread of this sample
    assert power(scaled, effect) == pytest.approx(shown, abs=0.06)


def test_seeds_needed_is_a_range_that_contains_the_estimate() -> None:
    stream = np.random.default_rng(6)
    values = 0.03 + stream.normal(0, 0.03, (5, 1)) + stream.normal(0, 0.2, (5, 2_000))
    fewest, most = seeds_needed(crossed_mean(values))
    assert fewest is not None
    assert most is None or most >= fewest
    wider = seeds_needed(crossed_mean(values), alpha=0.005)
    assert wider[0] is not None
    assert wider[0] > fewest, "a stricter level needs more seeds"


def test_seeds_cannot_replace_test_texts() -> None:
    texts = np.random.default_rng(7).normal(0, 1, 100)
    texts += 0.05 - texts.mean()
    found = crossed_mean(np.tile(texts, (5, 1)))
    assert power(found.with_seeds(MOST_SEEDS), 0.05) < 0.2
    assert seeds_needed(found) == (None, None)


def test_adding_seeds_until_something_is_significant_raises_the_error() -> None:
    assert error_of_looks((3,)) == pytest.approx(0.05, abs=0.005)
    assert error_of_looks((3, 10)) == pytest.approx(0.093, abs=0.01)
    assert error_of_looks(tuple(range(3, 11))) == pytest.approx(0.16, abs=0.015)


@pytest.mark.parametrize("num_groups", [10, 50])
def test_a_test_over_few_groups_is_not_blind(num_groups: int) -> None:
    """What one of 1,000 examples can change is the least error, not what one group can change."""
    stream = np.random.default_rng(0)
    numbers = np.arange(1_000) % num_groups
    ours, theirs = (stream.random((5, 1_000)) < share for share in (0.78, 0.72))
    grouped = [np.stack([grouped_values(row.astype(float), numbers) for row in arm]) for arm in (ours, theirs)]
    found = crossed_mean(grouped[0] - grouped[1], least_error=1 / 1_000)
    assert found.standard_error < 0.02
    assert (found.p_value() or 1.0) < 0.05
    assert (crossed_mean(grouped[0] - grouped[1]).p_value() or 0.0) > (found.p_value() or 1.0)


def test_the_test_over_few_groups_keeps_its_level() -> None:
    stream, numbers, rejected, draws = np.random.default_rng(1), np.arange(400) % 20, 0, 400
    for _ in range(draws):
        arms = [
            np.stack([grouped_values(row, numbers) for row in (stream.random((3, 400)) < 0.7).astype(float)])
            for _ in range(2)
        ]
        rejected += (crossed_mean(arms[0] - arms[1], least_error=1 / 400).p_value() or 1.0) < 0.05
    assert rejected / draws < 0.08
