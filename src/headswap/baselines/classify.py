"""Baselines of classification: the most frequent class, and TF-IDF with logistic regression."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from headswap.baselines.tfidf import MAX_FOLDS, SOLVER, TOLERANCE, check_size, joined_text, tfidf_features
from headswap.data.records import Example

STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
VERSION = 2
"""Part of the cache key and of a study's job ids: raise it when the scores change."""


@dataclass(frozen=True)
class ClassifyBaseline:
    """A baseline that computes the probability of every label; it is a function of train and test, and an arm."""

    meaning: str
    """What it is, for the table of a study's arms."""
    probabilities: Callable[[Sequence[Example], Sequence[Example], Sequence[str]], tuple[np.ndarray, dict[str, Any]]]
    """From train, test and the labels: the probabilities on test, and what was chosen on train."""
    seconds_per_text: float = 0.0
    """Time of one fit per text, for the estimate of a study."""

    def __call__(self, train: Sequence[Example], test: Sequence[Example]) -> dict[str, Any]:
        """The metrics on test; the two texts of a pair are joined."""
        labels = sorted({example.label for example in train})
        train, test = ([replace(example, text=joined_text(example)) for example in part] for part in (train, test))
        probabilities, chosen = self.probabilities(train, test, labels)
        return _scores([labels[number] for number in probabilities.argmax(axis=1)], test) | chosen


def majority_probabilities(
    train: Sequence[Example], test: Sequence[Example], labels: Sequence[str]
) -> tuple[np.ndarray, dict[str, Any]]:
    """The shares of the labels in train, repeated for every text of test, and the most frequent label."""
    counts = Counter(example.label for example in train)
    shares = np.array([counts[label] for label in labels]) / len(train)
    chosen = {"label": labels[int(shares.argmax())], "cross_validation": float(shares.max())}
    return np.broadcast_to(shares, (len(test), len(labels))), chosen


def tfidf_probabilities(
    train: Sequence[Example], test: Sequence[Example], labels: Sequence[str]
) -> tuple[np.ndarray, dict[str, Any]]:
    """TF-IDF and logistic regression; its strength C is chosen by cross-validation on train alone."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from threadpoolctl import threadpool_limits

    truth = [example.label for example in train]
    check_size(len(set(truth)), len(truth), what="texts")
    folds = min(MAX_FOLDS, min(Counter(truth).values()))
    strength, best = 1.0, None
    with threadpool_limits(1):  # several runs at a time would compete for threads
        features, test_features = tfidf_features([example.text for example in train], [one.text for one in test])
        check_size(len(set(truth)), features.shape[1], what="features")
        models = {C: LogisticRegression(C=C, solver=SOLVER, tol=TOLERANCE, max_iter=1_000) for C in STRENGTHS}
        if folds >= 2:
            splitter = StratifiedKFold(folds, shuffle=True, random_state=0)
            scores = {C: cross_val_score(models[C], features, truth, cv=splitter).mean() for C in STRENGTHS}
            strength = max(STRENGTHS, key=scores.__getitem__)
            best = float(scores[strength])
        model = models[strength].fit(features, truth)
        found = model.predict_proba(test_features)
    probabilities = np.zeros((len(test), len(labels)))
    numbers = {label: number for number, label in enumerate(labels)}
    probabilities[:, [numbers[str(label)] for label in model.classes_]] = found
    return probabilities, {"C": strength, "cross_validation": best}


def _scores(predicted: Sequence[str], test: Sequence[Example]) -> dict[str, Any]:
    from sklearn.metrics import f1_score

    truth = [example.label for example in test]
    hits = sum(guess == label for guess, label in zip(predicted, truth, strict=True))
    macro = f1_score(truth, predicted, average="macro", labels=sorted(set(truth)), zero_division=0)
    return {"accuracy": hits / len(truth), "macro_f1": float(macro), "num_examples": len(truth)}


majority_baseline = ClassifyBaseline("always the most frequent label", majority_probabilities)
tfidf_baseline = ClassifyBaseline(
    "TF-IDF of word 1-2-grams, logistic regression", tfidf_probabilities, seconds_per_text=4e-3
)
