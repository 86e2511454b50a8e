"""Baselines of multi-label classification: the labels of most texts, and one TF-IDF logistic regression per label."""

import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from headswap.baselines.arm_baseline import CROSS_VALIDATION, ArmBaseline, LinearModel
from headswap.baselines.tfidf import SOLVER, TOLERANCE, folds_without_strata, groups_of, joined_text, tfidf_features
from headswap.data.records import Example
from headswap.metrics.classification import log_loss
from headswap.metrics.multilabel import THRESHOLD, best_thresholds, multilabel_metrics, present_labels

METRIC = "micro_f1"
STRENGTHS = (1.0, 10.0, 100.0)
STRENGTH_OF_RARE_LABELS = 10.0


def most_frequent_labels(
    train: Sequence[Example], test: Sequence[Example], *, labels: Sequence[str] | None = None
) -> dict[str, Any]:
    """Predicts the labels that at least half of the training texts have; if there is none, the most frequent one.

    `labels` are those of the model that it is compared with, over which macro-F1 is the mean; default: all labels of
    train and test.
    """
    labels = labels or _labels([*train, *test])
    predicted, _ = frequent_labels(train, test, labels, METRIC)
    truth = present_labels([example.labels for example in test], labels)
    return multilabel_metrics(truth, predicted, labels, is_final=True)


def frequent_labels(
    train: Sequence[Example], test: Sequence[Example], labels: Sequence[str], metric: str
) -> tuple[np.ndarray, dict[str, Any]]:
    """The same labels for every text of test (texts x labels), and the score of the same rule by cross-validation."""
    wanted = present_labels([example.labels for example in train], labels)
    held_out = np.zeros(wanted.shape, dtype=bool)
    for rest, part in folds_without_strata(len(train), groups_of(train)):
        held_out[part] = _most_frequent(wanted[rest])
    score = multilabel_metrics(wanted, held_out, labels).get(metric)
    return np.broadcast_to(_most_frequent(wanted), (len(test), len(labels))), {CROSS_VALIDATION: score}


def _most_frequent(wanted: np.ndarray) -> np.ndarray:
    """Which labels at least half of the texts have; if there is none, the most frequent one."""
    shares = wanted.mean(axis=0)
    return (shares >= min(0.5, shares.max())) & (shares > 0)


def tfidf_labels(
    train: Sequence[Example],
    test: Sequence[Example],
    metric: str = METRIC,
    *,
    labels: Sequence[str] | None = None,
) -> dict[str, Any]:
    """One logistic regression per label; strength and threshold are chosen by cross-validation on train alone.

    With macro-F1 as the metric they are chosen for each label, otherwise for all labels together. The strength is
    chosen by the log loss if the metric is the loss, otherwise by F1; the threshold always by F1. `labels` as in
    `most_frequent_labels`.
    """
    labels = labels or _labels([*train, *test])
    predicted, _ = linear_labels(train, test, labels, metric)
    truth = present_labels([example.labels for example in test], labels)
    return multilabel_metrics(truth, predicted, labels, is_final=True)


def linear_labels(
    train: Sequence[Example], test: Sequence[Example], labels: Sequence[str], metric: str
) -> tuple[np.ndarray, dict[str, Any]]:
    """TF-IDF and one logistic regression per label: the predicted labels of test, and what was chosen on train."""
    texts = ([joined_text(example) for example in part] for part in (train, test))
    return chosen_labels(*tfidf_features(*texts), train, labels, metric)


def chosen_labels(
    features: Any, test_features: Any, train: Sequence[Example], labels: Sequence[str], metric: str
) -> tuple[np.ndarray, dict[str, Any]]:
    """The predicted labels of test (texts x labels), and what was chosen on train: C and threshold, per label if each
    has its own, and the score of the held-out predictions."""
    from threadpoolctl import threadpool_limits

    wanted = present_labels([example.labels for example in train], labels)
    # a label that all texts have or none has needs no model
    fixed = wanted.all(axis=0)
    predicted, held_out = (np.tile(fixed, (part.shape[0], 1)) for part in (test_features, features))
    varies = np.flatnonzero(wanted.any(axis=0) & ~wanted.all(axis=0))
    folds = folds_without_strata(len(train), groups_of(train))
    settings: dict[str, tuple[float, float]] = {}
    with threadpool_limits(1):
        for group in varies[:, None] if metric == "macro_f1" else varies[None, :] if len(varies) else ():
            predicted[:, group], held_out[:, group], setting = _fit_labels(
                features, wanted[:, group], test_features, folds, metric
            )
            settings |= {labels[number]: setting for number in group.tolist()}
    chosen: dict[str, Any] = {}
    for number, name in enumerate(("C", "threshold")):
        of_labels = {label: setting[number] for label, setting in settings.items()}
        if of_labels:
            chosen[name] = of_labels if metric == "macro_f1" else of_labels[labels[varies[0]]]
    score = multilabel_metrics(wanted, held_out, labels).get(metric)
    return predicted, chosen | {CROSS_VALIDATION: score}


def _fit_labels(
    features: Any, wanted: np.ndarray, test_features: Any, folds: Sequence[Any], metric: str
) -> tuple[np.ndarray, np.ndarray, tuple[float, float]]:
    """Which texts of test get each of some labels that share strength and threshold, which texts of train get them when
    they are held out, and the strength and the threshold."""
    has_both = all(0 < wanted[rest].sum() < wanted[rest].size for rest, _ in folds)
    if has_both and min(wanted.sum(), (~wanted).sum()) >= 2 * len(folds):
        kept = {strength: _held_out_scores(strength, features, wanted, folds) for strength in STRENGTHS}
        strength, threshold = _best_setting(kept, wanted, np.arange(len(wanted)), metric)
        held_out = _held_out(kept, wanted, folds, metric)
    else:  # too few texts to choose on
        strength, threshold = STRENGTH_OF_RARE_LABELS, THRESHOLD
        held_out = _held_out_scores(strength, features, wanted, folds) >= threshold
    columns = [_model(strength).fit(features, target).predict_proba(test_features)[:, 1] for target in wanted.T]
    return np.stack(columns, axis=1) >= threshold, held_out, (strength, threshold)


def _held_out_scores(strength: float, features: Any, wanted: np.ndarray, folds: Sequence[Any]) -> np.ndarray:
    """The probability of each label for every text of train, by a model of the other folds. If all texts of those have
    the label, or none has, it is 1 or 0."""
    found = np.zeros(wanted.shape)
    for (rest, part), (number, target) in product(folds, enumerate(wanted.T)):
        is_one_class = target[rest].all() or not target[rest].any()
        found[part, number] = (
            float(target[rest][0])
            if is_one_class
            else _model(strength).fit(features[rest], target[rest]).predict_proba(features[part])[:, 1]
        )
    return found


def _best_setting(
    kept: Mapping[float, np.ndarray], wanted: np.ndarray, rows: np.ndarray, metric: str
) -> tuple[float, float]:
    """The strength and the threshold with the best score on some texts, from the probabilities per strength."""
    best, truth = (-math.inf, 1.0, THRESHOLD), wanted[rows]
    for strength, scores in kept.items():
        found = scores[rows]
        cut = float(best_thresholds(found, truth, METRIC)[0])
        score = multilabel_metrics(truth, found >= cut, [""] * truth.shape[1])["micro_f1"]
        if metric == "loss":
            pairs = np.stack([1 - found.ravel(), found.ravel()], axis=1)
            score = -log_loss(pairs, truth.ravel().astype(np.int64))
        best = max(best, (score, strength, cut))
    return best[1:]


def _held_out(kept: Mapping[float, np.ndarray], wanted: np.ndarray, folds: Sequence[Any], metric: str) -> np.ndarray:
    """Which texts get the labels if the strength and the threshold of each fold are chosen on the other folds."""
    found = np.zeros(wanted.shape, dtype=bool)
    for rest, part in folds:
        strength, threshold = _best_setting(kept, wanted, rest, metric)
        found[part] = kept[strength][part] >= threshold
    return found


def _model(strength: float) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=strength, solver=SOLVER, tol=TOLERANCE, max_iter=1_000)


def _labels(examples: Sequence[Example]) -> list[str]:
    return sorted({name for example in examples for name in example.labels})


majority_baseline = ArmBaseline(
    "always the labels of at least half of the training texts, or else the most frequent one",
    frequent_labels,
    version=2,
    is_constant=True,
)
tfidf_baseline = ArmBaseline(
    "TF-IDF of word 1-2-grams, one logistic regression per label", linear_labels, seconds_per_text=2e-2, version=3
)
logistic_models = LinearModel(
    "one logistic regression per label", "C and the threshold", chosen_labels, seconds_per_label=8e-3
)
