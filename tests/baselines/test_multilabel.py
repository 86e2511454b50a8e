"""Baselines of multi-label classification."""

import pytest

from headswap.baselines.multilabel import most_frequent_labels, tfidf_labels
from headswap.data.records import Example


def labelled(*labels: str, text: str = "x") -> Example:
    return Example(text, ", ".join(labels), "tests", 1, None, labels)


def test_the_labels_of_most_texts_are_predicted_for_all() -> None:
    train = [labelled("a", "b"), labelled("a"), labelled("c")]
    found = most_frequent_labels(train, [labelled("a"), labelled("b", "c")])
    assert found["micro_f1"] == pytest.approx(2 * 1 / (2 + 3)), "only a is a label of half of them"
    rare = [labelled("a"), labelled("a"), labelled("b"), labelled(), labelled(), labelled()]
    assert most_frequent_labels(rare, [labelled("a")])["micro_f1"] == 1, "no label of half of them: the most frequent"


def test_a_label_of_few_texts_or_of_all_is_no_error() -> None:
    train = [labelled("a", "b", text="fine"), labelled("a", text="dull"), labelled("a", text="grey")]
    found = tfidf_labels(train, train)
    assert found["num_examples"] == 3
    assert found["f1"]["a"] == 1
