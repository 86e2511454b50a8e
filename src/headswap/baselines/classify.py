"""Baselines of classification: the most frequent class, and TF-IDF with logistic regression."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

import numpy as np

from headswap.baselines.arm_baseline import ArmBaseline
from headswap.baselines.linear import METRIC, Candidate, chosen_logistic, chosen_probabilities
from headswap.baselines.lsa_space import TextSpace
from headswap.baselines.tfidf import check_size, joined_text, tfidf_features
from headswap.data.records import Example
from headswap.metrics.classification import scores


@dataclass(frozen=True)
class ClassifyBaseline(ArmBaseline):
    """A baseline that computes the probability of every label; it is a function of train and test, and an arm.

    Its `outputs` are the probabilities on test. They are given the metric and a space of texts only if they have the
    arguments `metric` and `space`.
    """

    version: int = 2
    """Also part of the cache key."""

    def __call__(self, train: Sequence[Example], test: Sequence[Example], metric: str = METRIC) -> dict[str, Any]:
        """The metrics on test; the two texts of a pair are joined unless it reads pairs."""
        labels = sorted({example.label for example in train})
        if not self.reads_pairs:
            train, test = ([replace(example, text=joined_text(example)) for example in part] for part in (train, test))
        probabilities, chosen = self.fit(train, test, labels, metric)
        return _scores(probabilities, test, labels) | chosen

    def fit(
        self,
        train: Sequence[Example],
        test: Sequence[Example],
        labels: Sequence[str],
        metric: str,
        *,
        space: TextSpace | None = None,
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """The probabilities on test, and what was chosen on train, by this metric if `outputs` takes one."""
        given = {"metric": metric, "space": space}
        takes = signature(self.outputs).parameters
        return self.outputs(train, test, labels, **{name: given[name] for name in given if name in takes})


def majority_probabilities(
    train: Sequence[Example], test: Sequence[Example], labels: Sequence[str], metric: str = METRIC
) -> tuple[np.ndarray, dict[str, Any]]:
    """The shares of the labels in train, repeated for every text of test, the most frequent label, and its score."""
    from sklearn.dummy import DummyClassifier

    counts = Counter(example.label for example in train)
    rows, test_rows = np.zeros((len(train), 1)), np.zeros((len(test), 1))
    label = max(labels, key=lambda name: counts[name])
    candidate = Candidate({"label": label}, rows, test_rows, DummyClassifier(strategy="prior"))
    return chosen_probabilities([candidate], train, labels, metric)


def tfidf_probabilities(
    train: Sequence[Example], test: Sequence[Example], labels: Sequence[str], metric: str = METRIC
) -> tuple[np.ndarray, dict[str, Any]]:
    """TF-IDF and logistic regression; its strength C is chosen by cross-validation on train alone."""
    from threadpoolctl import threadpool_limits

    num_classes = len({example.label for example in train})
    check_size(num_classes, len(train), what="texts")
    with threadpool_limits(1):  # several runs at a time would compete for threads
        texts = [example.text for example in train], [one.text for one in test]
        features = tfidf_features(*texts, num_outputs=num_classes)
        check_size(num_classes, features[0].shape[1], what="features")
        return chosen_logistic(*features, train, labels, metric)


def _scores(probabilities: np.ndarray, test: Sequence[Example], labels: Sequence[str]) -> dict[str, Any]:
    found = scores(probabilities, np.array([labels.index(example.label) for example in test]))
    return {"accuracy": found["accuracy"], "macro_f1": found["macro_f1"], "num_examples": len(test)}


majority_baseline = ClassifyBaseline(
    "always the most frequent label", majority_probabilities, version=3, is_constant=True
)
tfidf_baseline = ClassifyBaseline(
    "TF-IDF of word 1-2-grams, logistic regression", tfidf_probabilities, seconds_per_text=4e-3, version=4
)
