"""Baseline of tagging."""

from headswap.baselines.tag import majority_baseline, most_frequent_tags
from headswap.data.records import TaggedExample


def test_a_word_gets_its_most_frequent_tag_and_an_unknown_word_o() -> None:
    train = [TaggedExample(("rome", "rome", "rome", "is"), ("B-LOC", "B-LOC", "O", "O"), "x", 1)]
    test = [TaggedExample(("rome", "is", "new"), ("B-LOC", "O", "O"), "x", 1)]
    found = most_frequent_tags(train, test)
    assert (found["f1"], found["accuracy"]) == (1, 1)
    plain = [TaggedExample(("a", "film", "film"), ("DET", "NOUN", "NOUN"), "x", 1)]
    assert most_frequent_tags(plain, [TaggedExample(("story",), ("NOUN",), "x", 1)])["accuracy"] == 1


def test_a_test_set_without_entities_is_scored_by_the_tags_of_train_or_of_the_model() -> None:
    train = [TaggedExample(("rome", "is"), ("B-LOC", "O"), "x", 1)]
    test = [TaggedExample(("rome", "is", "is", "is"), ("O",) * 4, "x", 1)]
    assert most_frequent_tags(train, test)["f1"] == 0
    assert most_frequent_tags(test, test)["scheme"] == "plain tags"
    assert most_frequent_tags(test, test, labels=("B-LOC", "O"))["scheme"] == "entities"


def test_cross_validation_of_sentences_without_entities_is_by_the_labels_of_the_study() -> None:
    train = [TaggedExample(("one", "two"), ("O", "O"), "x", line) for line in range(5)]
    assert majority_baseline.fit(train, train, ("B-LOC", "O"), "f1")[1]["cross_validation"] == 0
    assert majority_baseline.fit(train, train, ("O",), "f1")[1]["cross_validation"] == 1
