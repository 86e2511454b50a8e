"""Baselines of the tasks that are not single-label classification."""

import pytest

from headswap.baselines import registry as module
from headswap.baselines.registry import most_frequent_labels, most_frequent_tags, nearest_sentence, task_baselines
from headswap.data.records import Answer, Example, SpanExample, TaggedExample


def labelled(*labels: str, text: str = "x") -> Example:
    return Example(text, ", ".join(labels), "tests", 1, None, labels)


def test_the_labels_of_most_texts_are_given_to_all() -> None:
    train = [labelled("a", "b"), labelled("a"), labelled("c")]
    found = most_frequent_labels(train, [labelled("a"), labelled("b", "c")])
    assert found["micro_f1"] == pytest.approx(2 * 1 / (2 + 3)), "a alone stands on half of them"
    rare = [labelled("a"), labelled("a"), labelled("b"), labelled(), labelled(), labelled()]
    assert most_frequent_labels(rare, [labelled("a")])["micro_f1"] == 1, "no label on half of them: the commonest"


def test_a_label_of_few_texts_or_of_all_is_no_error() -> None:
    train = [labelled("a", "b", text="fine"), labelled("a", text="dull"), labelled("a", text="grey")]
    found = task_baselines("multilabel", train, train)
    assert found["tfidf"]["num_examples"] == 3
    assert found["tfidf"]["f1"]["a"] == 1


def test_a_word_gets_its_commonest_tag_and_an_unknown_one_o() -> None:
    train = [TaggedExample(("rome", "rome", "rome", "is"), ("B-LOC", "B-LOC", "O", "O"), "x", 1)]
    test = [TaggedExample(("rome", "is", "new"), ("B-LOC", "O", "O"), "x", 1)]
    found = most_frequent_tags(train, test)
    assert (found["f1"], found["accuracy"]) == (1, 1)
    plain = [TaggedExample(("a", "film", "film"), ("DET", "NOUN", "NOUN"), "x", 1)]
    assert most_frequent_tags(plain, [TaggedExample(("story",), ("NOUN",), "x", 1)])["accuracy"] == 1


def test_the_sentence_nearest_to_the_question_is_the_answer() -> None:
    context = "Anna plays chess. Bela lives in Rome. The film was fine."
    example = SpanExample("Where does Bela live?", context, (Answer("Rome", 32),), "x", 1)
    assert module._nearest(example) == "Bela lives in Rome."
    found = nearest_sentence([], [example])
    assert found["exact_match"] == 0
    assert found["f1"] == pytest.approx(2 * 1 / (4 + 1))


def test_other_labels_are_other_baselines() -> None:
    train = [labelled("a", text="fine"), labelled("b", text="dull")] * 3
    first = task_baselines("multilabel", train, [labelled("a", text="fine")])
    second = task_baselines("multilabel", train, [labelled("b", text="fine")])
    assert first["majority"] != second["majority"]
