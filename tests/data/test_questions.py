"""Questions with answers: rows, nested JSON of SQuAD, and errors."""

import json
from pathlib import Path
from typing import Any

import pytest

from headswap.core.errors import InputError
from headswap.data.config import ColumnSettings
from headswap.data.questions import read_questions
from headswap.data.records import Answer, SpanExample

CONTEXT = "Anna lives in Rome."


def write(file: Path, value: Any) -> Path:
    file.write_text(json.dumps(value))
    return file


def read(file: Path) -> list[SpanExample]:
    return read_questions(str(file), ColumnSettings())


def problem(file: Path) -> str:
    with pytest.raises(InputError) as raised:
        read(file)
    return str(raised.value)


def row(answers: Any, context: str = CONTEXT) -> dict[str, Any]:
    return {"question": "Where?", "context": context, "answers": answers}


@pytest.mark.parametrize(
    "answers",
    [
        {"text": ["Rome", "in Rome"], "answer_start": [14, 11]},
        [{"text": "Rome", "answer_start": 14}, {"text": "in Rome", "answer_start": 11}],
    ],
)
def test_both_formats_of_answers_are_read(tmp_path: Path, answers: Any) -> None:
    found = read(write(tmp_path / "a.jsonl", row(answers)))
    assert found[0].answers == (Answer("Rome", 14), Answer("in Rome", 11))
    assert (found[0].question, found[0].context, found[0].line) == ("Where?", CONTEXT, 1)


def test_nested_json_of_squad_is_read(tmp_path: Path) -> None:
    qas = [
        {"id": "1", "question": "Where?", "answers": [{"text": "Rome", "answer_start": 14}] * 3},
        {"id": "2", "question": "When?", "is_impossible": True, "answers": [], "plausible_answers": [{}]},
    ]
    content = {"version": "2", "data": [{"title": "x", "paragraphs": [{"context": CONTEXT, "qas": qas}]}]}
    found = read(write(tmp_path / "squad.json", content))
    assert [(one.question, one.answers) for one in found] == [("Where?", (Answer("Rome", 14),)), ("When?", ())]
    content["data"][0]["paragraphs"][0].pop("context")  # type: ignore[index]
    assert "does not have the structure of SQuAD: 'context'" in problem(write(tmp_path / "squad.json", content))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (row([{"text": "Rome", "answer_start": 13}]), "line 1: the answer 'Rome' is not at character 13 of the "
                                                      "context (' Rom' is)."),
        (row([{"text": "Rome", "answer_start": -5}]), "is not at character -5"),
        (row([{"text": "Rome"}]), "line 1: the answers are not a list of"),
        (row({"text": ["Rome"], "answer_start": []}), "line 1: the answers are not {"),
        (row([{"text": " ", "answer_start": 4}]), "line 1: an answer is blank; write [] for an unanswerable question."),
        (row([{"text": "Rome", "answer_start": "14"}]), "answer_start is a string, not a whole number"),
        (row(None), "line 1: the answers are null"),
        (row([], context=" "), "line 1: the context is blank."),
        ({"question": "x", "context": "y"}, "has no column 'answers' (columns: 'question', 'context')."),
    ],
)  # fmt: skip
def test_invalid_rows_are_reported(tmp_path: Path, value: dict[str, Any], words: str) -> None:
    assert words in problem(write(tmp_path / "a.jsonl", value))
