"""The single texts of pairs and questions that are also in test or validation are found."""

from headswap.data.records import Example, SpanExample
from headswap.study.setup.unlabelled_texts import may_read_unlabelled, overlap_of_single_texts, single_texts


def pair(first: str, second: str) -> Example:
    return Example(first, "x", "file", 1, second)


def test_single_texts_of_pairs_are_searched_in_test_and_validation() -> None:
    sets = {
        "train": [pair("a man plays", "a dog runs"), pair("a cat sleeps", "a dog runs"), pair("it rains", "it snows")],
        "test": [pair("A man  plays", "nobody is here")],
        "validation": [pair("some text", "a cat sleeps")],
    }
    texts = single_texts(sets["train"], without={"it snows"})
    assert texts == ["a man plays", "a dog runs", "a cat sleeps", "it rains"]
    found = overlap_of_single_texts(texts, sets)
    assert [(one.from_set, one.to_set, one.rows) for one in found] == [
        ("unlabelled", "test", [0]),
        ("unlabelled", "validation", [2]),
    ]
    del sets["validation"]
    assert [one.to_set for one in overlap_of_single_texts(texts, sets)] == ["test"]


def test_a_question_that_test_asks_too_is_found() -> None:
    train = [SpanExample("who built it ?", "a bridge in the north", (), "file", 1)]
    test = [SpanExample("who built it ?", "a tower in the south", (), "file", 1)]
    (found,) = overlap_of_single_texts(single_texts(train, without=set()), {"train": train, "test": test})
    assert found.rows == [1], "the context is first"


def test_rows_of_one_text_are_left_to_the_overlap_check() -> None:
    rows = [Example("a text", "x", "file", 1)]
    assert overlap_of_single_texts(["a text"], {"train": rows, "test": rows}) == []


def test_only_some_arms_read_training_texts_without_labels() -> None:
    assert may_read_unlabelled(None), "the default arms have adapted"
    assert may_read_unlabelled(["majority", "adapted:box:reviews-en"])
    assert may_read_unlabelled(["consistency:pretrained"])
    assert may_read_unlabelled(["recipes/own.toml"])
    assert not may_read_unlabelled(["majority", "scratch", "box"])
