"""Labels that do not occur in train: each is reported once, with its first line and its count."""

import pytest

from headswap.core.errors import InputError
from headswap.data.records import Example, TaggedExample
from headswap.data.seen_labels import check_seen


def test_known_labels_pass_and_no_hint_is_raised() -> None:
    examples = [Example("x", "a", "test.csv", 2)]
    check_seen(examples, ["a", "b"], role="test", labels_of=lambda one: [one.label], hint=lambda _: "A hint.")
    check_seen([], ["a"], role="test", labels_of=lambda one: [one.label])


def test_every_label_of_an_example_is_checked() -> None:
    examples = [
        Example("x", "", "test.csv", 2, labels=("a", "film")),
        Example("y", "", "test.csv", 3, labels=("film",)),
    ]
    with pytest.raises(InputError) as raised:
        check_seen(
            examples, ["a", "films"], role="test", labels_of=lambda one: one.labels, hint=lambda unseen: f"{unseen}."
        )
    assert str(raised.value).splitlines() == [
        "test.csv, line 2: the label 'film' of the test set does not occur in train (2 examples; labels in train: 'a', "
        "'films'). Did you mean 'films'?",
        "['film'].",
    ]


def test_the_words_of_the_message_can_be_set() -> None:
    examples = [TaggedExample(("x", "y"), ("X", "X"), "test.conll", 4)]
    with pytest.raises(InputError, match=r"line 4: the tag 'X' of the test set .* \(2 words; tags in train: 'O'\)"):
        check_seen(examples, ["O"], role="test", labels_of=lambda one: one.tags, noun="tag", unit="word")
