"""Baselines that are in every table: the majority class, and TF-IDF with logistic regression.

A linear model on word pairs is hard to beat with few labels; a tool that leaves it out misleads.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from headswap.core.errors import InputError
from headswap.core.files import read_json, write_json
from headswap.data.content_hash import cache_folder
from headswap.data.records import Example

STRENGTHS = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
MOST_FOLDS = 5
SOLVER = "newton-cg"
MOST_ROWS_TO_TURN = 5_000
TOLERANCE = 1e-7  # newton-cg's default of 1e-4 stops a point of accuracy short on 1,600 IMDb reviews
VERSION = 2


def baselines(train: Sequence[Example], test: Sequence[Example]) -> dict[str, Any]:
    """Both baselines; the same texts and labels are scored once and then found in the cache."""
    digest = hashlib.sha256(f"baselines {VERSION}".encode())
    for examples in (train, test):
        digest.update(b"\x00set\x00")
        for example in examples:
            digest.update(f"{example.text}\x1f{example.label}\x1e".encode())
    file = cache_folder() / "baselines" / f"{digest.hexdigest()[:32]}.json"
    return kept_scores(file, lambda: {"majority": majority_baseline(train, test), "tfidf": tfidf_baseline(train, test)})


def kept_scores(file: Path, score: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The scores in a file of the cache; where it is missing or damaged they are computed and written."""
    try:
        kept = read_json(file) if file.exists() else {}
    except InputError:
        kept = {}
    if not isinstance(kept, dict) or not kept or not all(isinstance(scores, dict) for scores in kept.values()):
        kept = score()
        write_json(file, kept)
    return kept


def majority_baseline(train: Sequence[Example], test: Sequence[Example]) -> dict[str, Any]:
    """Always the most frequent label of train."""
    labels = sorted({example.label for example in train})
    shares, _ = majority_probabilities(train, test, labels)
    return _scores(_names(shares, labels), test) | {"label": labels[int(shares[0].argmax())]}


def tfidf_baseline(train: Sequence[Example], test: Sequence[Example]) -> dict[str, Any]:
    """Word 1-2-gram TF-IDF and logistic regression; its strength C is chosen by cross-validation on train alone."""
    labels = sorted({example.label for example in train})
    probabilities, chosen = tfidf_probabilities(train, test, labels)
    return _scores(_names(probabilities, labels), test) | chosen


def majority_probabilities(
    train: Sequence[Example], test: Sequence[Example], labels: Sequence[str]
) -> tuple[np.ndarray, dict[str, Any]]:
    """The shares of the labels in train, for every text of test."""
    counts = Counter(example.label for example in train)
    shares = np.array([counts[label] for label in labels]) / len(train)
    return np.tile(shares, (len(test), 1)), {}


def tfidf_probabilities(
    train: Sequence[Example], test: Sequence[Example], labels: Sequence[str]
) -> tuple[np.ndarray, dict[str, Any]]:
    """The probability of every label for every text of test, and the strength that was chosen."""
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from threadpoolctl import threadpool_limits

    truth = [example.label for example in train]
    vectors = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"(?u)\b\w+\b")
    features = vectors.fit_transform([example.text for example in train])
    unseen = vectors.transform([example.text for example in test])
    folds = min(MOST_FOLDS, min(Counter(truth).values()))
    strength = 1.0
    with threadpool_limits(1):  # runs side by side would fight for threads
        if len(train) <= MOST_ROWS_TO_TURN:
            features, unseen = turned(features, unseen)
        models = {C: LogisticRegression(C=C, solver=SOLVER, tol=TOLERANCE, max_iter=1_000) for C in STRENGTHS}
        if folds >= 2:
            splitter = StratifiedKFold(folds, shuffle=True, random_state=0)
            scores = {C: cross_val_score(models[C], features, truth, cv=splitter).mean() for C in STRENGTHS}
            strength = max(STRENGTHS, key=scores.__getitem__)
        model = models[strength].fit(features, truth)
        found = model.predict_proba(unseen)
    probabilities = np.zeros((len(test), len(labels)))
    probabilities[:, [list(labels).index(str(label)) for label in model.classes_]] = found
    return probabilities, {"C": strength}


PROBABILITIES = {"majority": majority_probabilities, "tfidf": tfidf_probabilities}


def _names(probabilities: np.ndarray, labels: Sequence[str]) -> list[str]:
    return [labels[number] for number in probabilities.argmax(axis=1)]


def turned(features: Any, unseen: Any) -> tuple[np.ndarray, np.ndarray]:
    """The same texts in as many dimensions as there are training texts.

    A penalty on squared weights does not change under rotation, so the model is the same; with few texts, hundreds of
    thousands of word pairs and many classes it is fitted a hundred times faster.
    """
    values, axes = np.linalg.eigh((features @ features.T).toarray())
    is_real = values > values[-1] * 1e-12
    scale = np.sqrt(values[is_real])
    return axes[:, is_real] * scale, (unseen @ features.T).toarray() @ (axes[:, is_real] / scale)


def _scores(predicted: Sequence[str], test: Sequence[Example]) -> dict[str, Any]:
    from sklearn.metrics import f1_score

    truth = [example.label for example in test]
    hits = sum(guess == label for guess, label in zip(predicted, truth, strict=True))
    macro = f1_score(truth, predicted, average="macro", labels=sorted(set(truth)), zero_division=0)
    return {"accuracy": hits / len(truth), "macro_f1": float(macro), "num_examples": len(truth)}
