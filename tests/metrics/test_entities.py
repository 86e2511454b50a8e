"""Entities by the rules of seqeval; the expected spans were printed by seqeval 1.2.2 itself."""

import pytest

from headswap.metrics.entities import entities_of, tagging_metrics


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("B-PER I-PER O B-LOC", [("PER", 0, 2), ("LOC", 3, 4)]),
        ("B-PER B-PER", [("PER", 0, 1), ("PER", 1, 2)]),
        # not IOB2, read leniently
        ("O I-LOC I-LOC", [("LOC", 1, 3)]),
        ("I-A I-B O I-A B-A E-A S-B I-B", [("A", 0, 1), ("B", 1, 2), ("A", 3, 4), ("A", 4, 6), ("B", 6, 7),
                                           ("B", 7, 8)]),
        ("B-PER I-PER O I-LOC I-ORG B-ORG I-PER", [("PER", 0, 2), ("LOC", 3, 4), ("ORG", 4, 5), ("ORG", 5, 6),
                                                   ("PER", 6, 7)]),
        ("S-A B-A E-A O", [("A", 0, 1), ("A", 1, 3)]),
        ("B-PER-X I-PER-X", [("PER-X", 0, 2)]),
        ("O O", []),
    ],
)  # fmt: skip
def test_entities_are_those_that_seqeval_finds(tags: str, spans: list[tuple[str, int, int]]) -> None:
    assert [tuple(span) for span in entities_of(tags.split())] == spans


def test_an_entity_is_right_only_if_all_its_words_are() -> None:
    """seqeval's own example: F1 0.5."""
    truth = [["O", "O", "O", "B-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]
    guess = [["O", "O", "B-MISC", "I-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]
    found = tagging_metrics(truth, guess, ("B-PER", "O"), is_final=True)
    assert (found["f1"], found["precision"], found["recall"], found["macro_f1"]) == (0.5, 0.5, 0.5, 0.5)
    assert found["f1_by_type"] == {"MISC": 0.0, "PER": 1.0}
    assert found["accuracy"] == 0.8
    assert (found["num_entities"], found["num_words"], found["num_examples"]) == (2, 10, 2)
    assert 0 <= found["interval"]["low"] <= 0.5 <= found["interval"]["high"] <= 1


def test_no_predicted_entity_is_no_division_by_zero() -> None:
    found = tagging_metrics([["O", "B-A"]], [["O", "O"]], ("B-A", "O"))
    assert (found["f1"], found["precision"], found["recall"]) == (0, 0, 0)


def test_plain_tags_are_scored_word_by_word() -> None:
    tags = [["DET", "NOUN", "VERB", "NOUN"]]
    found = tagging_metrics(tags, [["DET", "NOUN", "NOUN", "NOUN"]], ("DET", "NOUN", "VERB"))
    assert found["scheme"] == "plain tags"
    assert found["f1"] == found["accuracy"] == 0.75


def test_a_scored_set_without_entities_is_scored_by_entities_too() -> None:
    """The tags of the training set decide: word by word the F1 of the same tags is 0.75."""
    found = tagging_metrics([["O", "O", "O", "O"]], [["O", "B-PER", "O", "O"]], ("B-PER", "I-PER", "O"))
    assert (found["f1"], found["precision"], found["scheme"]) == (0, 0, "entities")
    assert found["accuracy"] == 0.75
