"""Baseline of tagging."""

from headswap.baselines.tag import most_frequent_tags
from headswap.data.records import TaggedExample


def test_a_word_gets_its_most_frequent_tag_and_an_unknown_word_o() -> None:
    train = [TaggedExample(("rome", "rome", "rome", "is"), ("B-LOC", "B-LOC", "O", "O"), "x", 1)]
    test = [TaggedExample(("rome", "is", "new"), ("B-LOC", "O", "O"), "x", 1)]
    found = most_frequent_tags(train, test)
    assert (found["f1"], found["accuracy"]) == (1, 1)
    plain = [TaggedExample(("a", "film", "film"), ("DET", "NOUN", "NOUN"), "x", 1)]
    assert most_frequent_tags(plain, [TaggedExample(("story",), ("NOUN",), "x", 1)])["accuracy"] == 1
