"""The predictions of a tagger are saved and read back; damaged ones are an error."""

from pathlib import Path

import numpy as np
import pytest

from headswap.core.errors import InputError
from headswap.data.records import TaggedExample
from headswap.finetuning.prediction_file import load_predictions, text_ids
from headswap.finetuning.tag_predictions import TagPredictions
from headswap.metrics.entities import tagging_metrics
from headswap.metrics.intervals import f1_of_counts
from task_data import LABELS, examples_of


def made() -> TagPredictions:
    """Every second sentence is tagged correctly, the others have no entity."""
    examples = examples_of("tag", 20)
    outputs = [example.tags if row % 2 else ["O"] * len(example.tags) for row, example in enumerate(examples)]
    return TagPredictions.of(outputs, examples, LABELS["tag"])


def test_they_are_read_back_as_they_were_saved(tmp_path: Path) -> None:
    predictions = made()
    predictions.save(tmp_path)
    found = load_predictions(tmp_path)
    assert isinstance(found, TagPredictions)
    assert found.sentences() == predictions.sentences()
    assert found.test_key == predictions.test_key
    assert found.scores() == predictions.scores()


def test_the_counts_give_the_f1_of_entities() -> None:
    predictions = made()
    assert predictions.classes == ("LOC", "PER")
    expected = tagging_metrics(*predictions.sentences(), predictions.labels)
    assert f1_of_counts(predictions.counts.sum(axis=(0, 1))) == pytest.approx(expected["f1"])
    by_type = dict(zip(predictions.classes, f1_of_counts(predictions.counts.sum(axis=0)), strict=True))
    assert by_type == pytest.approx(expected["f1_by_type"])


def test_some_sentences_can_be_taken() -> None:
    predictions = made()
    right = predictions.take(np.arange(20) % 2 == 1)
    assert right.scores()["f1"] == 1.0
    assert len(right.text_ids) == 10


def test_tags_that_only_the_test_set_has_follow_those_of_train() -> None:
    examples = [TaggedExample(("a", "b"), ("O", "B-new"), "x", 1)]
    found = TagPredictions.of([["O", "O"]], examples, ("B-PER", "I-PER", "O"))
    assert found.labels == ("B-PER", "I-PER", "O", "B-new")
    assert found.scores()["recall"] == 0.0


def test_a_run_that_predicts_o_for_unread_words_is_compared_with_the_others() -> None:
    examples = [TaggedExample(("a", "b"), ("N", "X"), "x", 1)]
    plain, with_o = (TagPredictions.of([tags], examples, ("N", "V")) for tags in (["N", "V"], ["N", "O"]))
    assert with_o.labels == (*plain.labels, "O") == ("N", "V", "X", "O")
    assert with_o.test_key == plain.test_key
    other = TagPredictions.of([["N", "V"]], [TaggedExample(("a", "b"), ("N", "V"), "x", 1)], ("N", "V"))
    assert other.test_key != plain.test_key


def test_damaged_ones_are_an_error(tmp_path: Path) -> None:
    ids, tags = text_ids(["a", "b"]), np.array([0, 1, 1], dtype=np.int32)
    TagPredictions(tags, tags, np.array([1, 1]), ("O", "X"), ids).save(tmp_path)
    with pytest.raises(InputError, match=r"predicted has the shape \(3,\) for 2 words"):
        load_predictions(tmp_path)
    TagPredictions(tags, tags + 1, np.array([1, 2]), ("O", "X"), ids).save(tmp_path)
    with pytest.raises(InputError, match="targets must be numbers of the 2 tags"):
        load_predictions(tmp_path)


def test_saved_predictions_for_sentences_without_entities_are_scored_by_entities() -> None:
    examples = [TaggedExample(("a", "b", "c", "d"), ("O",) * 4, "x", 1)]
    found = TagPredictions.of([["O", "B-PER", "O", "O"]], examples, ("B-PER", "I-PER", "O"))
    assert found.scores()["f1"] == 0
    assert found.counts.tolist() == [[[0, 1, 0]]]
