"""Baselines of classification: the most frequent class, and TF-IDF with logistic regression."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import numpy as np

from headswap.baselines.tfidf import MAX_FOLDS, SOLVER, TOLERANCE, check_size, groups_of, joined_text, tfidf_features
from headswap.data.records import Example
from headswap.metrics.classification import scores

METRIC = "accuracy"
STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
VERSION = 2
"""Part of the cache key and of a study's job ids: raise it when the scores change."""


@dataclass(frozen=True)
class ClassifyBaseline:
    """A baseline that computes the probability of every label; it is a function of train and test, and an arm."""

    meaning: str
    """What it is, for the table of a study's arms."""
    probabilities: Callable[..., tuple[np.ndarray, dict[str, Any]]]
    """From train, test and the labels: the probabilities on test, and what was chosen on train. A function with the
    argument `metric` also gets the metric by which it chooses."""
    seconds_per_text: float = 0.0
    """Time of one fit per text, for the estimate of a study."""

    def __call__(self, train: Sequence[Example], test: Sequence[Example], metric: str = METRIC) -> dict[str, Any]:
        """The metrics on test; the two texts of a pair are joined."""
        labels = sorted({example.label for example in train})
        train, test = ([replace(example, text=joined_text(example)) for example in part] for part in (train, test))
        probabilities, chosen = self.fit(train, test, labels, metric)
        return _scores(probabilities, test, labels) | chosen

    def fit(
        self, train: Sequence[Example], test: Sequence[Example], labels: Sequence[str], metric: str
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """The probabilities on test, and what was chosen on train, by this metric if `probabilities` takes one."""
        takes_metric = "metric" in signature(self.probabilities).parameters
        return self.probabilities(train, test, labels, **({"metric": metric} if takes_metric else {}))


def majority_probabilities(
    train: Sequence[Example], test: Sequence[Example], labels: Sequence[str], metric: str = METRIC
) -> tuple[np.ndarray, dict[str, Any]]:
    """The shares of the labels in train, repeated for every text of test, the most frequent label, and its score."""
    counts = Counter(example.label for example in train)
    shares = np.array([counts[label] for label in labels]) / len(train)
    numbers = {label: number for number, label in enumerate(labels)}
    truth = np.array([numbers[example.label] for example in train])
    chosen = {
        "label": labels[int(shares.argmax())],
        "cross_validation": _value(np.broadcast_to(shares, (len(train), len(labels))), truth, metric),
    }
    return np.broadcast_to(shares, (len(test), len(labels))), chosen


def tfidf_probabilities(
    train: Sequence[Example], test: Sequence[Example], labels: Sequence[str], metric: str = METRIC
) -> tuple[np.ndarray, dict[str, Any]]:
    """TF-IDF and logistic regression; its strength C is chosen by cross-validation on train alone."""
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    truth = [example.label for example in train]
    check_size(len(set(truth)), len(truth), what="texts")
    folds = _folds(truth, groups_of(train))
    strength, best = 1.0, None
    with threadpool_limits(1):  # several runs at a time would compete for threads
        features, test_features = tfidf_features([example.text for example in train], [one.text for one in test])
        check_size(len(set(truth)), features.shape[1], what="features")
        models = {C: LogisticRegression(C=C, solver=SOLVER, tol=TOLERANCE, max_iter=1_000) for C in STRENGTHS}
        if folds:
            found = {C: _cross_validated(models[C], features, truth, folds, metric) for C in STRENGTHS}
            strength = max(STRENGTHS, key=found.__getitem__)
            best = found[strength]
        model = models[strength].fit(features, truth)
        known = model.predict_proba(test_features)
    probabilities = np.zeros((len(test), len(labels)))
    numbers = {label: number for number, label in enumerate(labels)}
    probabilities[:, [numbers[str(label)] for label in model.classes_]] = known
    return probabilities, {"C": strength, "cross_validation": best}


def _folds(truth: Sequence[str], groups: Sequence[str] | None) -> list[Any]:
    """The folds that C is chosen on, which separate no group; none if a fold would be trained without some class."""
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold

    number = min(MAX_FOLDS, min(Counter(truth).values()), *([] if groups is None else [len(set(groups))]))
    if number < 2:
        return []
    kind = StratifiedKFold if groups is None else StratifiedGroupKFold
    folds = list(kind(number, shuffle=True, random_state=0).split(np.zeros(len(truth)), truth, groups))
    return folds if all({truth[row] for row in rest} == set(truth) for rest, _ in folds) else []


def _cross_validated(model: Any, features: Any, truth: Sequence[str], folds: Sequence[Any], metric: str) -> float:
    """The metric of held-out predictions, higher is better: accuracy as the mean of the folds, others over all texts.

    A fold has too few texts of a rare class for an F1, so the predictions of all folds are scored together.
    """
    from sklearn.model_selection import cross_val_predict, cross_val_score

    if metric == METRIC:
        return float(cross_val_score(model, features, truth, cv=folds).mean())
    found = cross_val_predict(model, features, truth, cv=folds, method="predict_proba")
    labels = sorted(set(truth))
    return _value(found, np.array([labels.index(label) for label in truth]), metric)


def _value(probabilities: np.ndarray, targets: np.ndarray, metric: str) -> float:
    """The metric, higher is better."""
    value = scores(probabilities, targets)[metric]
    return -value if metric == "loss" else value


def _scores(probabilities: np.ndarray, test: Sequence[Example], labels: Sequence[str]) -> dict[str, Any]:
    found = scores(probabilities, np.array([labels.index(example.label) for example in test]))
    return {"accuracy": found["accuracy"], "macro_f1": found["macro_f1"], "num_examples": len(test)}


majority_baseline = ClassifyBaseline("always the most frequent label", majority_probabilities)
tfidf_baseline = ClassifyBaseline(
    "TF-IDF of word 1-2-grams, logistic regression", tfidf_probabilities, seconds_per_text=4e-3
)
