"""Baselines of multi-label classification: the labels of most texts, and one TF-IDF logistic regression per label."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from headswap.baselines.tfidf import SOLVER, TOLERANCE, folds_without_strata, groups_of, joined_text, tfidf_features
from headswap.data.records import Example
from headswap.metrics.classification import log_loss
from headswap.metrics.multilabel import THRESHOLD, best_thresholds, multilabel_metrics, present_labels

METRIC = "micro_f1"
STRENGTHS = (1.0, 10.0, 100.0)
STRENGTH_OF_RARE_LABELS = 10.0


def most_frequent_labels(train: Sequence[Example], test: Sequence[Example]) -> dict[str, Any]:
    """Predicts the labels that at least half of the training texts have; if there is none, the most frequent one."""
    labels = _labels(train)
    shares = present_labels([example.labels for example in train], labels).mean(axis=0)
    is_given = shares >= min(0.5, shares.max())
    truth = present_labels([example.labels for example in test], labels)
    return multilabel_metrics(truth, np.broadcast_to(is_given, truth.shape), labels, is_final=True)


def tfidf_labels(train: Sequence[Example], test: Sequence[Example], metric: str = METRIC) -> dict[str, Any]:
    """One logistic regression per label; strength and threshold are chosen by cross-validation on train alone.

    The strength of a label is chosen by the label's log loss if the metric is the loss, otherwise by its F1; the
    threshold always by F1.
    """
    from threadpoolctl import threadpool_limits

    labels = _labels(train)
    wanted = present_labels([example.labels for example in train], labels)
    features, test_features = tfidf_features(*([joined_text(example) for example in part] for part in (train, test)))
    scores = np.zeros((len(test), len(labels)))
    thresholds = np.full(len(labels), THRESHOLD)
    folds = folds_without_strata(len(train), groups_of(train))
    with threadpool_limits(1):
        for number in range(len(labels)):
            scores[:, number], thresholds[number] = _fit_label(
                features, wanted[:, number], test_features, folds, metric
            )
    truth = present_labels([example.labels for example in test], labels)
    return multilabel_metrics(truth, scores >= thresholds, labels, is_final=True)


def _fit_label(
    features: Any, target: np.ndarray, test_features: Any, folds: Sequence[Any], metric: str
) -> tuple[np.ndarray | float, float]:
    """The probability of one label for every text of test, and the threshold from which it is given."""
    from sklearn.model_selection import cross_val_predict

    counts = np.bincount(target, minlength=2)
    if not counts.min():  # all texts have the label, or none has
        return float(target[0]), THRESHOLD
    strength, threshold = STRENGTH_OF_RARE_LABELS, THRESHOLD
    has_both = all(0 < target[rest].sum() < len(rest) for rest, _ in folds)
    if has_both and counts.min() >= 2 * len(folds):  # otherwise too few to choose on
        best = (-math.inf, 1.0, THRESHOLD)
        for candidate in STRENGTHS:
            found = cross_val_predict(_model(candidate), features, target, cv=folds, method="predict_proba")[:, 1:]
            cut = best_thresholds(found, target[:, None])
            score = multilabel_metrics(target[:, None], found >= cut, ["x"])["micro_f1"]
            if metric == "loss":
                score = -log_loss(np.hstack([1 - found, found]), target.astype(np.int64))
            best = max(best, (score, candidate, float(cut[0])))
        _, strength, threshold = best
    return _model(strength).fit(features, target).predict_proba(test_features)[:, 1], threshold


def _model(strength: float) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=strength, solver=SOLVER, tol=TOLERANCE, max_iter=1_000)


def _labels(train: Sequence[Example]) -> list[str]:
    return sorted({name for example in train for name in example.labels})
