"""Linear classifiers of the baselines: settings are chosen by cross-validation on the labels, never on test.

All baselines of one labelled set have the same folds and are scored in the same way, so their cross-validation scores
can be compared. The folds are stratified and shuffled: 5 of them, or as many as the largest class has examples. A class
with fewer examples than folds is absent from the training part of some folds; its held-out texts count as wrong for
every setting. Equal scores are decided by the log loss of the held-out texts. Where no class has two examples there is
nothing to hold out, and a fixed strength is used (benchmarks/baselines.py has the measurements behind these rules).

The cross-validation score of a baseline is not that of its best setting, which would favour baselines with many
settings: each fold is scored with the setting that is best on the other folds.
"""

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headswap.baselines.arm_baseline import CROSS_VALIDATION, LinearModel
from headswap.baselines.tfidf import MAX_FOLDS, SOLVER, TOLERANCE, groups_of
from headswap.data.records import Example
from headswap.metrics.classification import scores

METRIC = "accuracy"
STRENGTHS = (1.0, 3.0, 10.0, 30.0, 100.0, 1000.0)
STRENGTH_WITHOUT_FOLDS = 100.0
Fold = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Candidate:
    """One setting of a baseline: its features, and a model with `fit`, `predict_proba` and `classes_`."""

    settings: Mapping[str, Any]
    train: Any
    test: Any
    model: Any
    is_fallback: bool = False
    """Whether it is used where nothing can be held out."""


def logistic_candidates(train: Any, test: Any, **settings: Any) -> list[Candidate]:
    """Logistic regression on these features, with each strength C."""
    from sklearn.linear_model import LogisticRegression

    return [
        Candidate(
            {**settings, "C": C},
            train,
            test,
            LogisticRegression(C=C, solver=SOLVER, tol=TOLERANCE, max_iter=1_000),
            is_fallback=C == STRENGTH_WITHOUT_FOLDS,
        )
        for C in STRENGTHS
    ]


def chosen_logistic(
    features: Any, test_features: Any, train: Sequence[Example], labels: Sequence[str], metric: str
) -> tuple[np.ndarray, dict[str, Any]]:
    """Logistic regression on these features: the probabilities on test, C, and its held-out score."""
    return chosen_probabilities(logistic_candidates(features, test_features), train, labels, metric)


def chosen_probabilities(
    candidates: Sequence[Candidate], train: Sequence[Example], labels: Sequence[str], metric: str
) -> tuple[np.ndarray, dict[str, Any]]:
    """The probabilities on test of the best candidate, fitted on all of train; its settings and its held-out score."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The number of unique classes is greater than 50%")  # few texts per class
        return _chosen(candidates, train, labels, metric)


def _chosen(
    candidates: Sequence[Candidate], train: Sequence[Example], labels: Sequence[str], metric: str
) -> tuple[np.ndarray, dict[str, Any]]:
    truth = [example.label for example in train]
    folds = make_folds(truth, groups_of(train))
    best, score = next((one for one in candidates if one.is_fallback), candidates[0]), None
    if folds:
        held = [_held_out(one, truth, labels, folds) for one in candidates]
        best = candidates[_best([_score(parts, metric) for parts in held])]
        chosen = [
            _best([_score(_without(parts, fold) or parts, metric) for parts in held]) for fold in range(len(folds))
        ]
        score, _ = _score([held[number][fold] for fold, number in enumerate(chosen)], metric)
    model = best.model.fit(best.train, truth)
    return _probabilities(model, best.test, labels), {**best.settings, CROSS_VALIDATION: score}


def make_folds(truth: Sequence[str], groups: Sequence[str] | None) -> list[Fold]:
    """(training, held-out) rows of each fold, which separate no group; none where nothing can be held out."""
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    number = min(MAX_FOLDS, max(Counter(truth).values()), *([] if groups is None else [len(set(groups))]))
    if number < 2:
        return []
    kind = StratifiedKFold if groups is None else StratifiedGroupKFold
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # classes with fewer examples than folds
        folds = list(kind(number, shuffle=True, random_state=0).split(np.zeros(len(truth)), truth, groups))
    return [(rest, held) for rest, held in folds if len(held) and len({truth[row] for row in rest}) > 1]


def _held_out(candidate: Candidate, truth: Sequence[str], labels: Sequence[str], folds: Sequence[Fold]) -> list[Fold]:
    """Per fold: the probabilities of its held-out texts, and the numbers of their true labels."""
    numbers = {label: number for number, label in enumerate(labels)}
    targets = np.array([numbers[label] for label in truth])
    found = []
    for rest, held in folds:
        model = candidate.model.fit(candidate.train[rest], [truth[row] for row in rest])
        probabilities = _probabilities(model, candidate.train[held], labels)
        found.append((probabilities.astype(np.float32), targets[held]))  # of all candidates: half the memory
    return found


def _score(parts: Sequence[Fold], metric: str) -> tuple[float, float]:
    """The metric and minus the log loss of the held-out texts of some folds, both higher if better.

    Accuracy is the mean of the folds. A fold has too few texts of a rare class for an F1, so other metrics are of the
    predictions of all folds together.
    """
    every = np.concatenate([found for found, _ in parts], dtype=np.float64)
    targets = np.concatenate([truth for _, truth in parts])
    accuracies = [float((found.argmax(axis=1) == truth).mean()) for found, truth in parts]
    value = float(np.mean(accuracies)) if metric == METRIC else metric_value(every, targets, metric)
    return value, metric_value(every, targets, "loss")


def _best(scores: Sequence[tuple[float, float]]) -> int:
    """The number of the highest score; of the first of equal ones."""
    return max(range(len(scores)), key=scores.__getitem__)


def _without(parts: Sequence[Fold], number: int) -> list[Fold]:
    return [*parts[:number], *parts[number + 1 :]]


def _probabilities(model: Any, features: Any, labels: Sequence[str]) -> np.ndarray:
    """The probability of every label; 0 for labels that the model was not fitted on."""
    numbers = {label: number for number, label in enumerate(labels)}
    found = np.zeros((features.shape[0], len(labels)))
    found[:, [numbers[str(label)] for label in model.classes_]] = model.predict_proba(features)
    return found


def metric_value(probabilities: np.ndarray, targets: np.ndarray, metric: str) -> float:
    """The metric, higher is better."""
    value = scores(probabilities, targets)[metric]
    return -value if metric == "loss" else value


logistic_model = LinearModel("logistic regression", "C", chosen_logistic, seconds_per_label=5e-3)
