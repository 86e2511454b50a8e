"""Baselines of classification, on a grammar whose words determine the label."""

import pytest

from headswap.baselines.classify import STRENGTHS, majority_baseline, tfidf_baseline
from headswap.data.records import Example
from tiny import sentences


def examples(count: int, seed: int) -> list[Example]:
    return [Example(text, label, "tests", line) for line, (text, label) in enumerate(sentences(count, seed=seed), 1)]


def test_tfidf_learns_the_grammar() -> None:
    found = tfidf_baseline(examples(80, 1), examples(60, 2))
    assert found["accuracy"] > 0.95
    assert found["macro_f1"] > 0.95
    assert found["num_examples"] == 60
    assert found["C"] in STRENGTHS


def test_tfidf_reads_both_texts_of_a_pair() -> None:
    train = [Example("a film", one.label, "tests", one.line, one.text) for one in examples(40, 1)]
    assert tfidf_baseline(train, train)["accuracy"] == 1


def test_the_majority_is_counted_in_train_and_scored_on_test() -> None:
    train = [Example("x", label, "tests", 1) for label in ("b", "b", "b", "a")]
    test = [Example("x", label, "tests", 1) for label in ("a", "b", "a", "a")]
    found = majority_baseline(train, test)
    assert (found["label"], found["accuracy"]) == ("b", 0.25)
    assert found["macro_f1"] == pytest.approx((0 + 2 * 0.25 / 1.25) / 2)


def test_on_a_tie_the_first_label_is_the_majority() -> None:
    train = [Example("x", label, "tests", 1) for label in ("b", "a")]
    assert majority_baseline(train, train)["label"] == "a"


def test_one_example_per_class_is_enough() -> None:
    train = [Example("a fine film", "pos", "tests", 1), Example("a dull film", "neg", "tests", 2)]
    assert tfidf_baseline(train, train)["accuracy"] == 1
