"""Baselines of classification: the most frequent class, and TF-IDF with logistic regression."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from headswap.baselines.tfidf import MAX_FOLDS, SOLVER, TOLERANCE, check_size, joined_text, tfidf_features
from headswap.data.records import Example

STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
VERSION = 2
"""Part of the cache key and of a study's job ids: raise it when the scores change."""


def majority_baseline(train: Sequence[Example], test: Sequence[Example]) -> dict[str, Any]:
    """Predicts the most frequent label of train for every text."""
    labels = sorted({example.label for example in train})
    shares, _ = majority_probabilities(train, test, labels)
    return _scores(_predicted(shares, labels), test) | {"label": labels[int(shares[0].argmax())]}


def tfidf_baseline(train: Sequence[Example], test: Sequence[Example]) -> dict[str, Any]:
    """TF-IDF and logistic regression; its strength C is chosen by cross-validation on train alone."""
    labels = sorted({example.label for example in train})
    train, test = ([replace(example, text=joined_text(example)) for example in part] for part in (train, test))
    probabilities, chosen = tfidf_probabilities(train, test, labels)
    return _scores(_predicted(probabilities, labels), test) | chosen


def majority_probabilities(
    train: Sequence[Example], test: Sequence[Example], labels: Sequence[str]
) -> tuple[np.ndarray, dict[str, Any]]:
    """The shares of the labels in train, repeated for every text of test."""
    counts = Counter(example.label for example in train)
    shares = np.array([counts[label] for label in labels]) / len(train)
    return np.broadcast_to(shares, (len(test), len(labels))), {}


def tfidf_probabilities(
    train: Sequence[Example], test: Sequence[Example], labels: Sequence[str]
) -> tuple[np.ndarray, dict[str, Any]]:
    """The probability of every label for every text of test, and the strength that was chosen."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from threadpoolctl import threadpool_limits

    truth = [example.label for example in train]
    check_size(len(set(truth)), len(truth), what="texts")
    folds = min(MAX_FOLDS, min(Counter(truth).values()))
    strength = 1.0
    with threadpool_limits(1):  # several runs at a time would compete for threads
        features, test_features = tfidf_features([example.text for example in train], [one.text for one in test])
        check_size(len(set(truth)), features.shape[1], what="features")
        models = {C: LogisticRegression(C=C, solver=SOLVER, tol=TOLERANCE, max_iter=1_000) for C in STRENGTHS}
        if folds >= 2:
            splitter = StratifiedKFold(folds, shuffle=True, random_state=0)
            scores = {C: cross_val_score(models[C], features, truth, cv=splitter).mean() for C in STRENGTHS}
            strength = max(STRENGTHS, key=scores.__getitem__)
        model = models[strength].fit(features, truth)
        found = model.predict_proba(test_features)
    probabilities = np.zeros((len(test), len(labels)))
    numbers = {label: number for number, label in enumerate(labels)}
    probabilities[:, [numbers[str(label)] for label in model.classes_]] = found
    return probabilities, {"C": strength}


PROBABILITIES = {"majority": majority_probabilities, "tfidf": tfidf_probabilities}
"""The baselines as probabilities, which studies keep as they keep those of a run."""


def _predicted(probabilities: np.ndarray, labels: Sequence[str]) -> list[str]:
    return [labels[number] for number in probabilities.argmax(axis=1)]


def _scores(predicted: Sequence[str], test: Sequence[Example]) -> dict[str, Any]:
    from sklearn.metrics import f1_score

    truth = [example.label for example in test]
    hits = sum(guess == label for guess, label in zip(predicted, truth, strict=True))
    macro = f1_score(truth, predicted, average="macro", labels=sorted(set(truth)), zero_division=0)
    return {"accuracy": hits / len(truth), "macro_f1": float(macro), "num_examples": len(truth)}
