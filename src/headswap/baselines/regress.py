"""Baselines of regression: the mean, and TF-IDF with ridge regression."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from headswap.baselines.tfidf import folds_without_strata, groups_of, joined_text, tfidf_features
from headswap.data.records import Example
from headswap.metrics.regression import regression_metrics

METRIC = "mse"
PENALTIES = tuple(10.0**power for power in range(-3, 4))


def mean_value(train: Sequence[Example], test: Sequence[Example]) -> dict[str, Any]:
    """Predicts the mean of train for every text."""
    truth = np.array([example.value for example in test])
    mean = float(np.mean([example.value for example in train]))
    return regression_metrics(truth, np.full(len(test), mean), is_final=True) | {"value": mean}


def tfidf_ridge(train: Sequence[Example], test: Sequence[Example], metric: str = METRIC) -> dict[str, Any]:
    """TF-IDF and ridge regression; its penalty is chosen by cross-validation of the metric on train alone."""
    from sklearn.linear_model import Ridge
    from threadpoolctl import threadpool_limits

    features, test_features = tfidf_features(*([joined_text(example) for example in part] for part in (train, test)))
    values = np.array([example.value for example in train])
    folds = folds_without_strata(len(train), groups_of(train))
    with threadpool_limits(1):
        models = {alpha: Ridge(alpha, random_state=0) for alpha in PENALTIES}
        found = {alpha: _cross_validated(models[alpha], features, values, folds, metric) for alpha in PENALTIES}
        alpha = max(PENALTIES, key=found.__getitem__)
        predicted = models[alpha].fit(features, values).predict(test_features)
    truth = np.array([example.value for example in test])
    return regression_metrics(truth, predicted, is_final=True) | {"alpha": alpha}


def _cross_validated(model: Any, features: Any, values: np.ndarray, folds: Any, metric: str) -> float:
    """The metric of held-out predictions, higher is better: MSE as the mean of the folds, others over all texts."""
    from sklearn.model_selection import cross_val_predict, cross_val_score

    if metric in (METRIC, "loss", "r2"):  # all three order the penalties by squared error
        return float(cross_val_score(model, features, values, cv=folds, scoring="neg_mean_squared_error").mean())
    found = regression_metrics(values, cross_val_predict(model, features, values, cv=folds))[metric]
    if found is None:
        return -math.inf
    return -found if metric == "mae" else found
