"""Settings of linear baselines: folds for rare classes, ties, and labels without anything to hold out."""

import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest

from headswap.baselines.classify import tfidf_baseline
from headswap.baselines.linear import STRENGTH_WITHOUT_FOLDS, Candidate, chosen_probabilities, make_folds
from headswap.data.records import Example


def requests(sizes: list[int], seed: int) -> list[Example]:
    """Texts of many classes: the word of the class among frequent words that say nothing."""
    stream = np.random.default_rng(seed)
    return [
        Example(f"{' '.join(stream.choice(list('abcdefgh'), 5))} k{label}", str(label), "x", number)
        for label, size in enumerate(sizes)
        for number in range(size)
    ]


def test_every_text_is_held_out_once_and_a_class_may_be_absent_from_a_training_part() -> None:
    truth = ["often"] * 9 + ["twice"] * 2 + ["once"]
    folds = make_folds(truth, None)
    assert len(folds) == 5
    assert sorted(np.concatenate([held for _, held in folds]).tolist()) == list(range(12))
    assert sum("once" not in {truth[row] for row in rest} for rest, _ in folds) == 1
    assert all("twice" in {truth[row] for row in rest} for rest, _ in folds)


def test_there_are_at_most_as_many_folds_as_the_largest_class_has_examples() -> None:
    assert len(make_folds(list("aabbc"), None)) == 2
    assert make_folds(list("abc"), None) == []
    assert make_folds(list("aabb"), ["one group"] * 4) == []


def test_a_fold_whose_training_part_has_one_class_is_left_out() -> None:
    folds = make_folds(list("aaaabbbb"), ["g"] * 4 + ["h"] * 4)
    assert folds == [], "each half has one class"


def test_with_few_examples_per_class_the_strength_is_not_the_smallest() -> None:
    """34 classes of unequal sizes, some with a single example: a strong penalty predicts the large classes."""
    sizes = [1] * 8 + [2] * 14 + [4] * 12
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # scikit-learn warns of few texts per class
        found = tfidf_baseline(requests(sizes, 1), requests([3] * 34, 2))
    assert found["C"] >= 30
    assert found["accuracy"] > 0.65
    assert 0 < found["cross_validation"] < 1


def test_without_a_class_that_has_two_examples_a_fixed_strength_is_used() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = tfidf_baseline(requests([1] * 10, 1), requests([1] * 10, 1))
    assert (found["C"], found["cross_validation"]) == (STRENGTH_WITHOUT_FOLDS, None)
    assert found["accuracy"] == 1


class Fixed:
    """A model that gives the first class the same probability for every text."""

    def __init__(self, probability: float) -> None:
        self.probability = probability

    def fit(self, features: Any, truth: Any) -> "Fixed":
        self.classes_ = np.unique(truth)
        return self

    def predict_proba(self, features: Any) -> np.ndarray:
        return np.tile([self.probability, 1 - self.probability], (len(features), 1))


@pytest.mark.parametrize(("first", "second", "chosen"), [(0.9, 0.6, 0.6), (0.6, 0.9, 0.6), (0.4, 0.99, 0.99)])
def test_equal_scores_are_decided_by_the_log_loss(first: float, second: float, chosen: float) -> None:
    """With 60 % of class a, .6 has the lowest log loss; a model that predicts b has a lower accuracy and loses."""
    train = [Example("x", "a" if number < 12 else "b", "x", number) for number in range(20)]
    assert Counter(one.label for one in train)["a"] == 12
    features = np.zeros((20, 1))
    candidates = [Candidate({"p": p}, features, features[:2], Fixed(p)) for p in (first, second)]
    probabilities, found = chosen_probabilities(candidates, train, ["a", "b"], "accuracy")
    assert found == {"p": chosen, "cross_validation": pytest.approx(0.6)}
    assert probabilities[:, 0].tolist() == [chosen, chosen]


class Column:
    """A model that learns nothing: its only feature is the probability of the second class."""

    def fit(self, features: Any, truth: Any) -> "Column":
        self.classes_ = np.unique(truth)
        return self

    def predict_proba(self, features: Any) -> np.ndarray:
        return np.hstack([1 - features, features])


def test_the_score_of_many_useless_settings_is_that_of_chance() -> None:
    """The best of 60 random guesses is right for two thirds of these texts."""
    stream = np.random.default_rng(1)
    train = [Example("x", "ab"[number % 2], "x", number) for number in range(80)]
    guesses = [stream.random((80, 1)) for _ in range(60)]
    candidates = [Candidate({"number": at}, guess, guess[:2], Column()) for at, guess in enumerate(guesses)]
    _, found = chosen_probabilities(candidates, train, ["a", "b"], "accuracy")
    best = max(np.mean((guess[:, 0] > 0.5) == (np.arange(80) % 2)) for guess in guesses)
    assert best > 0.62
    assert found["cross_validation"] < 0.57
