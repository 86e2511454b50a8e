"""Baselines of regression: the mean, and TF-IDF with ridge regression."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from headswap.baselines.arm_baseline import CROSS_VALIDATION, ArmBaseline, LinearModel
from headswap.baselines.tfidf import folds_without_strata, groups_of, joined_text, tfidf_features
from headswap.data.records import Example
from headswap.metrics.regression import regression_metrics

METRIC = "mse"
TOLERANCE = 1e-8  # of conjugate gradients: with the default of 1e-4 values differ from the exact ones by up to 1e-3
PENALTIES = tuple(10.0**power for power in range(-3, 4))


class RegressBaseline(ArmBaseline):
    """A baseline that predicts a value per text; it is a function of train and test, and an arm of a study."""

    def __call__(self, train: Sequence[Example], test: Sequence[Example], metric: str = METRIC) -> dict[str, Any]:
        """The metrics on test, and what was chosen by the metric."""
        predicted, chosen = self.outputs(train, test, (), metric)
        truth = np.array([example.value for example in test])
        return regression_metrics(truth, predicted, is_final=True) | {
            name: value for name, value in chosen.items() if name != CROSS_VALIDATION
        }


def mean_values(
    train: Sequence[Example], test: Sequence[Example], labels: Sequence[str], metric: str
) -> tuple[np.ndarray, dict[str, Any]]:
    """The mean of train for every text; it has no correlation to cross-validate."""
    from sklearn.dummy import DummyRegressor

    del labels
    values = np.array([example.value for example in train])
    score = None
    if metric not in ("pearson", "spearman"):
        folds = folds_without_strata(len(train), groups_of(train))
        found = _held_out(DummyRegressor(), np.zeros((len(train), 1)), values, folds)
        score = _score(values, found, [held for _, held in folds], metric)
    mean = float(np.mean([example.value for example in train]))
    return np.full(len(test), mean), {"value": mean, CROSS_VALIDATION: score}


def ridge_values(
    train: Sequence[Example], test: Sequence[Example], labels: Sequence[str], metric: str
) -> tuple[np.ndarray, dict[str, Any]]:
    """TF-IDF and ridge regression: the values on test, the penalty, and its score by cross-validation."""
    features = tfidf_features(*([joined_text(example) for example in part] for part in (train, test)))
    return chosen_ridge(*features, train, labels, metric)


def chosen_ridge(
    features: Any, test_features: Any, train: Sequence[Example], labels: Sequence[str], metric: str
) -> tuple[np.ndarray, dict[str, Any]]:
    """Ridge regression on features of train and test; the penalty is chosen by cross-validation on train alone."""
    from scipy.sparse import issparse
    from sklearn.linear_model import Ridge
    from threadpoolctl import threadpool_limits

    del labels
    values = np.array([example.value for example in train])
    folds = folds_without_strata(len(train), groups_of(train))
    held_out = [held for _, held in folds]
    with threadpool_limits(1):
        solver = {"solver": "sparse_cg", "tol": TOLERANCE} if issparse(features) else {}
        models = {alpha: Ridge(alpha, random_state=0, **solver) for alpha in PENALTIES}
        found = {alpha: _held_out(models[alpha], features, values, folds) for alpha in PENALTIES}

        def best(rows: Sequence[np.ndarray]) -> float:
            return max(PENALTIES, key=lambda alpha: _score(values, found[alpha], rows, metric))

        alpha = best(held_out)
        predicted = models[alpha].fit(features, values).predict(test_features)
    # As in linear.py: each fold is scored with the penalty that is best on the other folds.
    honest = np.empty(len(values))
    for number, held in enumerate(held_out):
        honest[held] = found[best([*held_out[:number], *held_out[number + 1 :]] or held_out)][held]
    score = _score(values, honest, held_out, metric)
    return predicted, {"alpha": alpha, CROSS_VALIDATION: score if math.isfinite(score) else None}


def _held_out(model: Any, features: Any, values: np.ndarray, folds: Any) -> np.ndarray:
    """The predicted value of every text by a model of the other folds."""
    from sklearn.model_selection import cross_val_predict

    return cross_val_predict(model, features, values, cv=folds)


def _score(values: np.ndarray, found: np.ndarray, folds: Sequence[np.ndarray], metric: str) -> float:
    """The metric on the held-out texts of some folds, higher is better: MSE as the mean of the folds, others over all
    texts."""
    if metric in (METRIC, "loss", "r2"):  # all three order the penalties by squared error
        return -float(np.mean([np.mean((found[rows] - values[rows]) ** 2) for rows in folds]))
    rows = np.concatenate(folds)
    score = regression_metrics(values[rows], found[rows])[metric]
    if score is None:
        return -math.inf
    return -score if metric == "mae" else score


mean_baseline = RegressBaseline("always the mean of the training values", mean_values, is_constant=True)
tfidf_baseline = RegressBaseline(
    "TF-IDF of word 1-2-grams, ridge regression", ridge_values, seconds_per_text=1e-3, version=3
)
ridge_model = LinearModel("ridge regression", "the penalty", chosen_ridge, seconds_per_label=1e-3)
