"""Naive-Bayes features with a linear model (Wang and Manning 2012, Baselines and Bigrams).

Each word or word pair that a text has is a feature with the value r, the log ratio of its shares in the texts of a
class and in the other texts. On these features a logistic regression is fitted instead of a linear SVM, because a study
needs probabilities. There is one such model per class, against all others; with two classes there is one model.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from headswap.baselines.classify import ClassifyBaseline
from headswap.baselines.linear import METRIC, Candidate, chosen_probabilities
from headswap.baselines.tfidf import check_size
from headswap.data.records import Example

MODEL = "NB-SVM"
STRENGTHS = (0.1, 1.0, 10.0, 100.0)
STRENGTH_WITHOUT_FOLDS = 10.0
SMOOTHING = 1.0


class NaiveBayesLogistic:
    """Logistic regression on Naive-Bayes features, one class against the others."""

    def __init__(self, C: float) -> None:
        self.C = C

    def fit(self, features: Any, truth: Sequence[str]) -> "NaiveBayesLogistic":
        """Fit on binary features (texts x words); the ratios are those of these texts alone."""
        labels = np.asarray(truth)
        self.classes_ = np.unique(labels)
        positive = self.classes_[1:] if len(self.classes_) == 2 else self.classes_
        fitted = [self._against_others(features, labels == label) for label in positive]
        self.weights = np.stack([weights for weights, _ in fitted], axis=1)
        self.intercepts = np.array([intercept for _, intercept in fitted])
        return self

    def _against_others(self, features: Any, is_class: np.ndarray) -> tuple[np.ndarray, float]:
        """The weights of the features and the intercept of one class against the others."""
        from sklearn.linear_model import LogisticRegression

        ratio = log_ratio(features, is_class)
        model = LogisticRegression(C=self.C, solver="liblinear", dual=True, max_iter=1_000, random_state=0)
        model.fit(features.multiply(ratio).tocsr(), is_class)
        return model.coef_[0] * ratio, float(model.intercept_[0])

    def predict_proba(self, features: Any) -> np.ndarray:
        """The probability of every class; with more than two classes the models' values divided by their sum."""
        found = 1 / (1 + np.exp(-np.clip(features @ self.weights + self.intercepts, -500, 500)))
        return np.hstack([1 - found, found]) if len(self.classes_) == 2 else found / found.sum(axis=1, keepdims=True)


def log_ratio(features: Any, is_class: np.ndarray) -> np.ndarray:
    """ln of (share of a feature in the texts of the class / its share in the other texts), with add-one smoothing."""
    of_class, of_others = (
        np.asarray(features[np.flatnonzero(part)].sum(axis=0), dtype=np.float64).ravel() + SMOOTHING
        for part in (is_class, ~is_class)
    )
    return np.log(of_class / of_class.sum()) - np.log(of_others / of_others.sum())


def nbsvm_probabilities(
    train: Sequence[Example], test: Sequence[Example], labels: Sequence[str], metric: str = METRIC
) -> tuple[np.ndarray, dict[str, Any]]:
    """Words and word pairs as binary features; C is chosen by cross-validation on train alone."""
    from sklearn.feature_extraction.text import CountVectorizer
    from threadpoolctl import threadpool_limits

    num_classes = len({example.label for example in train})
    check_size(num_classes, len(train), what="texts", model=MODEL)
    vectorizer = CountVectorizer(ngram_range=(1, 2), binary=True, token_pattern=r"(?u)\b\w+\b", dtype=np.float64)
    with threadpool_limits(1):  # as in classify.py
        features = vectorizer.fit_transform([example.text for example in train])
        check_size(num_classes, features.shape[1], what="features", model=MODEL)
        test_features = vectorizer.transform([example.text for example in test])
        candidates = [
            Candidate({"C": C}, features, test_features, NaiveBayesLogistic(C), is_fallback=C == STRENGTH_WITHOUT_FOLDS)
            for C in STRENGTHS
        ]
        return chosen_probabilities(candidates, train, labels, metric)


nbsvm_baseline = ClassifyBaseline(
    "Naive-Bayes log ratios of word 1-2-grams, logistic regression (NB-SVM)",
    nbsvm_probabilities,
    seconds_per_text=4e-3,
    version=2,
)
