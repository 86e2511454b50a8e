"""The overlap check sees both texts of a pair, and the context and the question."""

import pytest

from headswap.data.labelled_overlap import overlap_of_examples, shared_text_notes
from headswap.data.overlap import Overlap
from headswap.data.records import Answer, Example, SpanExample

PAIRS = (("train", "test"), ("corpus", "test"), ("train", "train"))
CONTEXT = "the old bridge was built in the year 1901 by two brothers who had come from a small town in the north"


def pair(first: str, second: str, line: int) -> Example:
    return Example(first, "x", "file", line, second)


def question(asked: str, context: str, line: int) -> SpanExample:
    return SpanExample(asked, context, (Answer(context[:3], 0),), "file", line)


def found(sets: dict[str, list], corpus: list[str] | None = None) -> dict[tuple[str, str], Overlap]:
    every = overlap_of_examples(sets, corpus, pairs=PAIRS, containment=PAIRS[:2])
    return {(one.from_set, one.to_set): one for one in every}


def test_a_pair_overlaps_only_with_both_texts() -> None:
    test = [pair("a man plays a flute", "a man plays an instrument", 1)]
    train = [
        pair("a man plays a flute", "a dog runs over the grass", 1),
        pair("A man plays a flute", "a man plays  an instrument", 2),
        pair("a child sleeps", "a man plays an instrument", 3),
    ]
    assert found({"train": train, "test": test})["train", "test"].rows == [1]
    (note,) = shared_text_notes({"train": train, "test": test}, unit="pair")
    assert note.startswith("3 pairs of the 3 in train have a text that is also in a pair of the test set.")


def test_a_pair_with_its_texts_in_the_other_order_is_the_same_pair() -> None:
    first, second = "is it safe to swim here", "can one swim in this lake"
    rows = {"train": [pair(second, first, 1)], "test": [pair(first, second, 1)]}
    assert found(rows)["train", "test"].rows == [0]


def test_a_long_text_that_two_pairs_share_is_no_overlap() -> None:
    test = [pair(CONTEXT, "two brothers built a bridge", 1)]
    train = [pair(CONTEXT, "nobody has ever seen that river from above", 1)]
    assert found({"train": train, "test": test})["train", "test"].rows == []


def test_a_very_long_text_that_two_pairs_share_is_no_overlap() -> None:
    """As one text the two pairs have a Jaccard similarity above .8."""
    long = " ".join(f"{CONTEXT} {number}" for number in range(5))
    test, train = [pair(long, "two brothers built it", 1)], [pair(long, "nobody has seen it", 1)]
    assert found({"train": train, "test": test})["train", "test"].rows == []
    assert len(shared_text_notes({"train": train, "test": test}, unit="pair")) == 1, "it is counted and kept"


def test_a_document_of_the_corpus_overlaps_with_a_single_text_of_a_pair() -> None:
    test = [pair("a child sleeps", "a dog runs", 1), pair("a man plays a flute", "a man plays an instrument", 2)]
    sets = {"train": [pair("some other text", "and one more", 1)], "test": test}
    overlap = found(sets, ["something else", "A man plays an instrument"])["corpus", "test"]
    assert overlap.rows == [1]
    assert overlap.examples[0].to_row == 1, "the row of the pair, not of the text"


def test_a_question_about_a_context_of_test_overlaps_and_the_same_question_about_another_does_not() -> None:
    test = [question("who built the bridge ?", CONTEXT, 1)]
    other = "a tall tower in the south was finished by a king in a time that nobody knows any more today"
    train = [question("when was it built ?", CONTEXT, 1), question("who built the bridge ?", other, 2)]
    overlaps = found({"train": train, "test": test}, [CONTEXT, other])
    assert overlaps["train", "test"].rows == [0]
    assert overlaps["corpus", "test"].rows == [0]


def words(name: str, count: int) -> str:
    return " ".join(f"{name}{number}" for number in range(count))


@pytest.mark.parametrize(
    ("context_words", "question_words", "num_train", "num_test"),
    [(2, 6, 1, 1), (10, 6, 1, 1), (11, 6, 1, 1), (20, 25, 1, 1), (60, 6, 11, 1), (60, 6, 30, 1), (60, 6, 1, 12)],
)
def test_every_question_about_a_context_of_test_overlaps(
    context_words: int, question_words: int, num_train: int, num_test: int
) -> None:
    """Short contexts, questions longer than their context, and many questions about one context."""
    shared, own = words("shared", context_words), words("own", context_words)
    sets = {
        role: [question(words(f"{role}{number}x", question_words), shared, number + 1) for number in range(count)]
        for role, count in (("train", num_train), ("test", num_test))
    }
    kept = question(words("train0x", question_words), own, num_train + 1)
    overlap = found({"train": [kept, *sets["train"]], "test": sets["test"]})["train", "test"]
    assert overlap.exact == list(range(1, num_train + 1))
    assert overlap.counts | {"exact_rows": 0} == dict.fromkeys(overlap.counts, 0)
    assert overlap.num_rows == num_train + 1


def test_nearly_equal_contexts_and_parts_of_contexts_overlap_and_their_first_questions_are_shown() -> None:
    test = [question("which ?", words("other", 30), 1), question("what ?", words("word", 60), 2)]
    changed = words("word", 60).replace("word30 ", "another ")
    part, passage = words("word", 40), f"{words('new', 50)} {words('word', 20)}"
    asked = [words("new", 50), changed, changed, part, f" {words('WORD', 60)}", passage]
    train = [question(f"question {line} ?", context, line) for line, context in enumerate(asked, 1)]
    overlap = found({"train": train, "test": test})["train", "test"]
    assert (overlap.exact, overlap.near, overlap.contained, overlap.passages) == ([4], [1, 2], [3], [5])
    assert {(one.kind, one.from_row, one.to_row) for one in overlap.examples} == {
        ("exact", 4, 1), ("near", 1, 1), ("contained", 3, 1), ("passage", 5, 1)
    }  # fmt: skip


def test_sets_without_questions_have_no_overlap() -> None:
    assert found({"train": [question("which ?", CONTEXT, 1)], "test": []})["train", "test"].rows == []


def test_two_questions_about_one_context_are_no_duplicates_within_a_set() -> None:
    asked = ["who built the bridge ?", "when was it built ?", "Who built the  bridge ?"]
    context = " ".join(f"{CONTEXT} {number}" for number in range(5))
    rows = [question(text, context, line) for line, text in enumerate(asked, 1)]
    assert found({"train": rows, "test": rows[:1]})["train", "train"].rows == [2]


def test_single_texts_have_no_note() -> None:
    one = [Example("a text", "x", "file", 1)]
    assert shared_text_notes({"train": one, "test": one}, unit="text") == []
    assert found({"train": one, "test": one})["train", "test"].rows == [0]
