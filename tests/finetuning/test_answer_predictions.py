"""The predictions of a question answerer are saved and read back; damaged ones are an error."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headswap.core.errors import InputError
from headswap.data.records import Answer, SpanExample
from headswap.finetuning.answer_predictions import AnswerPredictions
from headswap.finetuning.prediction_file import load_predictions
from headswap.metrics.squad import span_metrics

CONTEXT = "anna left rome . anna lives in port louis ."
EXAMPLES = [
    SpanExample("where does anna live ?", CONTEXT, (Answer("port louis", 31),), "x", 1),
    SpanExample("what did anna leave ?", CONTEXT, (Answer("rome", 10),), "x", 2),
    SpanExample("who is bela ?", "carl plays chess .", (), "x", 3),
]
ANSWERS = ["port", "rome", ""]


def made() -> AnswerPredictions:
    return AnswerPredictions.of(ANSWERS, EXAMPLES, ())


def test_they_are_read_back_as_they_were_saved(tmp_path: Path) -> None:
    predictions = made()
    predictions.save(tmp_path)
    found = load_predictions(tmp_path)
    assert isinstance(found, AnswerPredictions)
    assert found.test_key == predictions.test_key
    assert found.scores() == predictions.scores()


def test_the_scores_are_those_of_squad() -> None:
    expected = span_metrics(ANSWERS, EXAMPLES)
    for name, value in made().scores().items():
        assert value == pytest.approx(expected[name]), name
    assert made().starts.tolist() == [31, 10, -1]
    assert made().ends.tolist() == [35, 14, -1]


def test_questions_about_one_context_are_a_group() -> None:
    groups = made().group_ids
    assert groups is not None
    assert groups[0] == groups[1] != groups[2]
    assert AnswerPredictions.of(ANSWERS[1:], EXAMPLES[1:], ()).group_ids is None


def test_some_questions_can_be_taken() -> None:
    part = made().take(np.array([False, True, True]))
    assert part.scores()["exact_match"] == 1.0
    assert part.has_answer.tolist() == [True, False]


def test_another_right_answer_is_another_test_set() -> None:
    other = [replace(EXAMPLES[0], answers=(Answer("rome", 10),)), *EXAMPLES[1:]]
    assert AnswerPredictions.of(ANSWERS, other, ()).test_key != made().test_key


def test_damaged_ones_are_an_error(tmp_path: Path) -> None:
    replace(made(), f1=np.array([0.5, 2.0, 0.0])).save(tmp_path)
    with pytest.raises(InputError, match="f1 must be numbers from 0 to 1"):
        load_predictions(tmp_path)
    replace(made(), starts=np.zeros(2, dtype=np.int32)).save(tmp_path)
    with pytest.raises(InputError, match="the arrays have the shapes"):
        load_predictions(tmp_path)
