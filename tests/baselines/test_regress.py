"""Baselines of regression: penalties and scores by cross-validation."""

import numpy as np
import pytest
from scipy.sparse import issparse
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_absolute_error
from sklearn.model_selection import cross_val_predict

from headswap.baselines.regress import CROSS_VALIDATION, PENALTIES, chosen_ridge, mean_values, ridge_values
from headswap.baselines.tfidf import folds_without_strata, tfidf_features
from headswap.data.records import Example
from tiny import sentences


def rated(values: np.ndarray) -> list[Example]:
    return [Example("x", f"{value}", "tests", line, value=float(value)) for line, value in enumerate(values, 1)]


@pytest.mark.parametrize("metric", ["mae", "r2"])
def test_each_fold_is_scored_with_the_penalty_that_is_best_on_the_other_folds(metric: str) -> None:
    stream = np.random.default_rng(2)
    features, noise = stream.normal(size=(40, 30)), stream.normal(size=40)
    values = noise + features[:, 0]
    predicted, chosen = chosen_ridge(features, features[:3], rated(values), (), metric)
    folds = folds_without_strata(40, None)
    found = {a: cross_val_predict(Ridge(a, random_state=0), features, values, cv=folds) for a in PENALTIES}

    def error(guess: np.ndarray, rows: np.ndarray) -> float:
        if metric == "mae":
            return mean_absolute_error(values[rows], guess[rows])
        inside = [held[np.isin(held, rows)] for _, held in folds]
        return float(np.mean([np.mean((guess[one] - values[one]) ** 2) for one in inside if len(one)]))

    every, honest = np.arange(40), np.empty(40)
    best = min(PENALTIES, key=lambda alpha: error(found[alpha], every))
    for rest, held in folds:
        honest[held] = found[min(PENALTIES, key=lambda alpha: error(found[alpha], rest))][held]
    assert chosen["alpha"] == best
    assert chosen[CROSS_VALIDATION] == pytest.approx(-error(honest, every))
    assert chosen[CROSS_VALIDATION] < -error(found[best], every), "the score of the best penalty is too good"
    assert predicted == pytest.approx(Ridge(best).fit(features, values).predict(features[:3]))


@pytest.mark.parametrize("alpha", [min(PENALTIES), max(PENALTIES)])
def test_the_sparse_solver_finds_the_exact_model(alpha: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headswap.baselines.regress.PENALTIES", (alpha,))
    texts = [text for text, _ in sentences(60, seed=1)]
    train = [Example(text, "", "tests", line, value=float(len(text))) for line, text in enumerate(texts, 1)]
    features, test_features = tfidf_features(texts, texts[:9])
    assert issparse(features)
    values = np.array([example.value for example in train])
    exact = Ridge(alpha, solver="cholesky").fit(features.toarray(), values).predict(test_features.toarray())
    predicted, _ = ridge_values(train, train[:9], (), "mse")
    np.testing.assert_allclose(predicted, exact, rtol=1e-6)


def test_the_mean_is_scored_on_the_same_folds_and_has_no_correlation() -> None:
    values = np.array([1.0, 2.0, 3.0, 4.0, 10.0, 0.0])
    found = {metric: mean_values(rated(values), rated(values[:2]), (), metric) for metric in ("mae", "pearson")}
    held_out = np.empty(6)
    for rest, held in folds_without_strata(6, None):
        held_out[held] = values[rest].mean()
    predicted, chosen = found["mae"]
    assert chosen[CROSS_VALIDATION] == pytest.approx(-mean_absolute_error(values, held_out))
    assert predicted.tolist() == [values.mean()] * 2
    assert found["pearson"][1][CROSS_VALIDATION] is None
