"""Intervals of a score on one test set."""

import numpy as np
import pytest

from headswap.metrics.intervals import resampled_interval
from headswap.metrics.multilabel import multilabel_metrics


def test_a_perfect_score_has_an_interval_by_the_rule_of_three() -> None:
    truth = np.array([[True, False]] * 30)
    assert multilabel_metrics(truth, truth, ["a", "b"], is_final=True)["interval"] == {
        "metric": "micro_f1", "low": pytest.approx(0.9), "high": 1.0,
    }  # fmt: skip


def test_the_resampled_interval_of_a_mean_is_that_of_the_normal_approximation() -> None:
    values = np.random.default_rng(0).normal(size=400)
    counts = np.stack([values, np.ones(400)], axis=1)
    low, high = resampled_interval(counts, lambda sums: sums[..., 0] / sums[..., 1])
    half = 1.96 * values.std() / 20
    assert (low, high) == (pytest.approx(values.mean() - half, abs=0.02), pytest.approx(values.mean() + half, abs=0.02))
    assert resampled_interval(counts, lambda sums: sums[..., 0] / sums[..., 1]) == (low, high), "the draws are fixed"
