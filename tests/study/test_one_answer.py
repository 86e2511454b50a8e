"""The test of a system with one answer per text: its error rate by simulation, and its limit."""

import numpy as np
import pytest
from scipy import stats

from headswap.study.statistics.significance import crossed_mean, mean_over_texts, seeds_needed

NUM_TEXTS, REPEATS = 250, 2_000


def rates(p_values: list[float | None]) -> float:
    return float(np.mean([p is not None and p < 0.05 for p in p_values]))


@pytest.mark.parametrize(("num_seeds", "of_seeds"), [(3, 0.0), (3, 0.15), (5, 0.15), (10, 0.3)])
def test_against_an_arm_with_seeds_the_level_is_kept(num_seeds: int, of_seeds: float) -> None:
    """Both are right equally often in the mean over seeds and texts; texts differ in difficulty, seeds in quality."""
    stream = np.random.default_rng(5)
    found = []
    for _ in range(REPEATS):
        easy = 0.8 + stream.normal(0, 1, NUM_TEXTS)
        quality = stream.normal(0, of_seeds, (num_seeds, 1))
        other = easy + quality + stream.normal(0, 1, (num_seeds, NUM_TEXTS)) > 0
        single = easy + stream.normal(0, np.sqrt(1 + of_seeds**2), NUM_TEXTS) > 0
        found.append(crossed_mean(single - other.astype(float)).p_value())
    assert 0.02 < rates(found) < 0.065


def test_a_test_over_texts_alone_would_ignore_the_seeds_of_the_other_arm() -> None:
    """Why the seeds of the other arm are part of the test: without them its error rate is far above .05."""
    stream = np.random.default_rng(6)
    found = []
    for _ in range(500):
        easy = 0.8 + stream.normal(0, 1, NUM_TEXTS)
        other = easy + stream.normal(0, 0.4, (3, 1)) + stream.normal(0, 1, (3, NUM_TEXTS)) > 0
        single = easy + stream.normal(0, np.sqrt(1 + 0.4**2), NUM_TEXTS) > 0
        found.append(mean_over_texts(single - other.astype(float)).p_value())
    assert rates(found) > 0.2


def test_between_two_systems_with_one_answer_per_text_the_level_is_kept() -> None:
    stream = np.random.default_rng(7)
    found = []
    for _ in range(REPEATS):
        easy = 0.8 + stream.normal(0, 1, NUM_TEXTS)
        one, two = (easy + stream.normal(0, 1, NUM_TEXTS) > 0 for _ in range(2))
        found.append(mean_over_texts((one.astype(float) - two)[None]).p_value())
    assert 0.035 < rates(found) < 0.065


def test_it_is_the_paired_t_test_over_texts() -> None:
    values = np.random.default_rng(8).normal(0.1, 1, 200)
    found, expected = mean_over_texts(values[None]), stats.ttest_1samp(values, 0.0)
    assert found.p_value() == pytest.approx(expected.pvalue)
    span = expected.confidence_interval(0.95)
    assert (found.interval().low, found.interval().high) == pytest.approx((span.low, span.high))
    assert seeds_needed(found) == (None, None)
