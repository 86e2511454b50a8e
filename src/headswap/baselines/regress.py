"""Baselines of regression: the mean, and TF-IDF with ridge regression."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from headswap.baselines.tfidf import MAX_FOLDS, joined_text, tfidf_features
from headswap.data.records import Example
from headswap.metrics.regression import regression_metrics

PENALTIES = tuple(10.0**power for power in range(-3, 4))


def mean_value(train: Sequence[Example], test: Sequence[Example]) -> dict[str, Any]:
    """Predicts the mean of train for every text."""
    truth = np.array([example.value for example in test])
    mean = float(np.mean([example.value for example in train]))
    return regression_metrics(truth, np.full(len(test), mean), is_final=True) | {"value": mean}


def tfidf_ridge(train: Sequence[Example], test: Sequence[Example]) -> dict[str, Any]:
    """TF-IDF and ridge regression; its penalty is chosen by cross-validation on train alone."""
    from sklearn.linear_model import Ridge
    from sklearn.model_selection import KFold, cross_val_score
    from threadpoolctl import threadpool_limits

    features, test_features = tfidf_features(*([joined_text(example) for example in part] for part in (train, test)))
    values = np.array([example.value for example in train])
    folds = KFold(min(MAX_FOLDS, len(train)), shuffle=True, random_state=0)
    with threadpool_limits(1):
        errors = {
            alpha: cross_val_score(
                Ridge(alpha, random_state=0), features, values, cv=folds, scoring="neg_mean_squared_error"
            ).mean()
            for alpha in PENALTIES
        }
        alpha = max(PENALTIES, key=errors.__getitem__)
        predicted = Ridge(alpha, random_state=0).fit(features, values).predict(test_features)
    truth = np.array([example.value for example in test])
    return regression_metrics(truth, predicted, is_final=True) | {"alpha": alpha}
