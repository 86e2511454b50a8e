"""Baselines of multi-label classification: the labels of most texts, and one TF-IDF logistic regression per label."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from headswap.baselines.arm_baseline import CROSS_VALIDATION, ArmBaseline
from headswap.baselines.tfidf import SOLVER, TOLERANCE, folds_without_strata, groups_of, joined_text, tfidf_features
from headswap.data.records import Example
from headswap.metrics.classification import log_loss
from headswap.metrics.multilabel import THRESHOLD, best_thresholds, multilabel_metrics, present_labels

METRIC = "micro_f1"
STRENGTHS = (1.0, 10.0, 100.0)
STRENGTH_OF_RARE_LABELS = 10.0


def most_frequent_labels(train: Sequence[Example], test: Sequence[Example]) -> dict[str, Any]:
    """Predicts the labels that at least half of the training texts have; if there is none, the most frequent one."""
    labels = _labels([*train, *test])
    predicted, _ = frequent_labels(train, test, labels, METRIC)
    truth = present_labels([example.labels for example in test], labels)
    return multilabel_metrics(truth, predicted, labels, is_final=True)


def frequent_labels(
    train: Sequence[Example], test: Sequence[Example], labels: Sequence[str], metric: str
) -> tuple[np.ndarray, dict[str, Any]]:
    """The same labels for every text of test (texts x labels), and their score on train."""
    wanted = present_labels([example.labels for example in train], labels)
    shares = wanted.mean(axis=0)
    is_given = shares >= min(0.5, shares.max())
    score = multilabel_metrics(wanted, np.broadcast_to(is_given, wanted.shape), labels).get(metric)
    return np.broadcast_to(is_given, (len(test), len(labels))), {CROSS_VALIDATION: score}


def tfidf_labels(train: Sequence[Example], test: Sequence[Example], metric: str = METRIC) -> dict[str, Any]:
    """One logistic regression per label; strength and threshold are chosen by cross-validation on train alone.

    The strength of a label is chosen by the label's log loss if the metric is the loss, otherwise by its F1; the
    threshold always by F1.
    """
    labels = _labels([*train, *test])
    predicted, _ = linear_labels(train, test, labels, metric)
    truth = present_labels([example.labels for example in test], labels)
    return multilabel_metrics(truth, predicted, labels, is_final=True)


def linear_labels(
    train: Sequence[Example], test: Sequence[Example], labels: Sequence[str], metric: str
) -> tuple[np.ndarray, dict[str, Any]]:
    """The predicted labels of test (texts x labels), and the score of the held-out predictions on train."""
    from threadpoolctl import threadpool_limits

    wanted = present_labels([example.labels for example in train], labels)
    texts = ([joined_text(example) for example in part] for part in (train, test))
    features, test_features = tfidf_features(*texts, is_binary=True)
    predicted, held_out = np.zeros((len(test), len(labels)), dtype=bool), np.zeros(wanted.shape, dtype=bool)
    folds = folds_without_strata(len(train), groups_of(train))
    with threadpool_limits(1):
        for number in range(len(labels)):
            scores, threshold, held_out[:, number] = _fit_label(
                features, wanted[:, number], test_features, folds, metric
            )
            predicted[:, number] = scores >= threshold
    score = multilabel_metrics(wanted, held_out, labels).get(metric)
    return predicted, {CROSS_VALIDATION: score}


def _fit_label(
    features: Any, target: np.ndarray, test_features: Any, folds: Sequence[Any], metric: str
) -> tuple[np.ndarray | float, float, np.ndarray]:
    """The probability of one label for every text of test, the threshold from which it is given, and whether the texts
    of train get it when they are held out (none does if there are too few examples of the label)."""
    from sklearn.model_selection import cross_val_predict

    counts = np.bincount(target, minlength=2)
    if not counts.min():  # all texts have the label, or none has
        return float(target[0]), THRESHOLD, target
    strength, threshold, held_out = STRENGTH_OF_RARE_LABELS, THRESHOLD, np.zeros(len(target), dtype=bool)
    has_both = all(0 < target[rest].sum() < len(rest) for rest, _ in folds)
    if has_both and counts.min() >= 2 * len(folds):  # otherwise too few to choose on
        best, kept = (-math.inf, 1.0, THRESHOLD), {}
        for candidate in STRENGTHS:
            found = cross_val_predict(_model(candidate), features, target, cv=folds, method="predict_proba")[:, 1:]
            cut = best_thresholds(found, target[:, None])
            score = multilabel_metrics(target[:, None], found >= cut, ["x"])["micro_f1"]
            if metric == "loss":
                score = -log_loss(np.hstack([1 - found, found]), target.astype(np.int64))
            best = max(best, (score, candidate, float(cut[0])))
            kept[candidate] = found[:, 0]
        _, strength, threshold = best
        held_out = _held_out(kept[strength], target, folds)
    return _model(strength).fit(features, target).predict_proba(test_features)[:, 1], threshold, held_out


def _held_out(scores: np.ndarray, target: np.ndarray, folds: Sequence[Any]) -> np.ndarray:
    """Which texts get the label if the threshold of each fold is chosen on the other folds."""
    found = np.zeros(len(target), dtype=bool)
    for rest, part in folds:
        found[part] = scores[part] >= best_thresholds(scores[rest, None], target[rest, None])[0]
    return found


def _model(strength: float) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=strength, solver=SOLVER, tol=TOLERANCE, max_iter=1_000)


def _labels(examples: Sequence[Example]) -> list[str]:
    return sorted({name for example in examples for name in example.labels})


majority_baseline = ArmBaseline(
    "always the labels of at least half of the training texts, or else the most frequent one",
    frequent_labels,
    is_constant=True,
)
tfidf_baseline = ArmBaseline(
    "TF-IDF of word 1-2-grams, one logistic regression per label", linear_labels, seconds_per_text=2e-2
)
