"""Naive-Bayes features: the ratios by hand, and models of two and of more classes."""

import math

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from headswap.baselines import tfidf
from headswap.baselines.nbsvm import NaiveBayesLogistic, log_ratio, nbsvm_baseline
from headswap.baselines.tfidf import TooManyClassesError
from headswap.data.records import Example
from tiny import sentences


def examples(count: int, seed: int) -> list[Example]:
    return [Example(text, label, "tests", line) for line, (text, label) in enumerate(sentences(count, seed=seed), 1)]


def letters(count: int, seed: int) -> list[Example]:
    """Three classes, each with its own word."""
    stream = np.random.default_rng(seed)
    return [Example(f"{' '.join(stream.choice(list('uvwxyz'), 4))} {'abc'[at % 3]}", "abc"[at % 3], "x", at)
            for at in range(count)]  # fmt: skip


def test_log_ratios_are_those_of_smoothed_shares() -> None:
    features = csr_matrix(np.array([[1, 1, 0], [1, 0, 0], [0, 0, 1.0]]))
    found = log_ratio(features, np.array([True, True, False]))
    # texts of the class: counts 2, 1, 0, plus one each: 3, 2, 1 of 6; the others: 1, 1, 2 of 4
    np.testing.assert_allclose(found, [math.log(3 / 6 / (1 / 4)), math.log(2 / 6 / (1 / 4)), math.log(1 / 6 / (2 / 4))])


def test_two_classes_have_one_model_whose_weights_include_the_ratios() -> None:
    features = csr_matrix(np.array([[1, 0], [1, 1], [0, 1], [0, 1.0]]))
    model = NaiveBayesLogistic(1.0).fit(features, list("ppnn"))
    assert model.classes_.tolist() == ["n", "p"]
    assert model.weights.shape == (2, 1)
    shares = model.predict_proba(features)
    logit = features @ model.weights[:, 0] + model.intercepts[0]
    np.testing.assert_allclose(shares[:, 1], 1 / (1 + np.exp(-logit)))
    assert shares.argmax(axis=1).tolist() == [1, 1, 0, 0]


def test_it_learns_the_grammar_and_chooses_its_strength_on_train() -> None:
    found = nbsvm_baseline(examples(80, 1), examples(60, 2))
    assert found["accuracy"] > 0.95
    assert found["cross_validation"] > 0.9


def test_three_classes_are_fitted_one_against_the_others() -> None:
    train, test = letters(30, 1), letters(30, 2)
    shares, chosen = nbsvm_baseline.fit(train, test, ["a", "b", "c"], "accuracy")
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert (shares.argmax(axis=1) == ["abc".index(one.label) for one in test]).mean() > 0.9
    again, _ = nbsvm_baseline.fit(train, test, ["a", "b", "c"], "accuracy")
    assert np.array_equal(shares, again)
    assert chosen["C"] > 0


def test_one_example_per_class_is_enough() -> None:
    train = [Example("a fine film", "pos", "tests", 1), Example("a dull film", "neg", "tests", 2)]
    found = nbsvm_baseline(train, train)
    assert (found["accuracy"], found["cross_validation"]) == (1, None)


def test_too_many_classes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tfidf, "MANY_CLASSES", 2)
    monkeypatch.setattr(tfidf, "MOST_COEFFICIENTS", 91)
    with pytest.raises(TooManyClassesError, match=r"NB-SVM is not fitted: 3 classes x \d+ features are more than 91"):
        nbsvm_baseline(letters(30, 1), letters(3, 2))
