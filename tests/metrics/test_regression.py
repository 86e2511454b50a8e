"""Metrics of regression, compared with scipy's."""

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

from headswap.metrics.regression import correlation, ranks, regression_metrics


def test_regression_metrics_against_scipy() -> None:
    stream = np.random.default_rng(1)
    truth = stream.integers(0, 6, 40).astype(float)
    guess = truth + stream.normal(size=40).round(1)
    found = regression_metrics(truth, guess, is_final=True)
    assert found["pearson"] == pytest.approx(pearsonr(truth, guess).statistic)
    assert found["spearman"] == pytest.approx(spearmanr(truth, guess).statistic)
    assert found["mse"] == pytest.approx(((truth - guess) ** 2).mean())
    assert found["r2"] == pytest.approx(1 - found["mse"] / truth.var())
    assert found["interval"]["low"] < found["mse"] < found["interval"]["high"]
    assert ranks(np.array([3.0, 1.0, 3.0])).tolist() == [1.5, 0, 1.5]


def test_a_constant_side_has_no_correlation() -> None:
    assert correlation(np.ones(4), np.arange(4.0)) is None
    assert correlation(np.arange(4.0), np.full(4, 1045.7)) is None, "whatever the rounding of their mean"
