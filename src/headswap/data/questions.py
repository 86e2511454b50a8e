"""Questions with contexts and answers, in the format of SQuAD.

Rows (.jsonl, .parquet, `hf:`) have the columns `context`, `question` and `answers`. Answers are either
`{"text": [...], "answer_start": [...]}` or a list of `{"text", "answer_start"}`. The nested .json files of SQuAD are
also read. An answer must be in its context at `answer_start`; a wrong offset would silently train on a wrong span. With
`answer_offsets = "nearest"` such an answer is moved to the nearest place where the context has it.
"""

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headswap.core.errors import InputError, SettingError, counted
from headswap.core.files import parse_json
from headswap.data.columns import COLUMN_EXTENSIONS, Problems, Row, kind_of, read_rows, text_problem
from headswap.data.config import ColumnSettings
from headswap.data.hub_sets import PREFIX, hub_rows
from headswap.data.labelled import one_file
from headswap.data.named_sets import is_named
from headswap.data.open_text import extension_of, read_bytes
from headswap.data.records import Answer, SpanExample

log = logging.getLogger("headswap")
PEEK = 1 << 12


def read_questions(source: str, columns: ColumnSettings, *, needs_answers: bool = True) -> list[SpanExample]:
    """All questions in order; answers are read if `needs_answers`. Invalid rows are errors with file and line."""
    problems = Problems()
    wanted = {"question_column": columns.question_column, "context_column": columns.context_column}
    if needs_answers:
        wanted["answers_column"] = columns.answers_column
    if is_named(source):
        if not source.startswith(PREFIX):
            raise SettingError(f"{source} has one label per text. Use --task classify.")
        examples = list(_examples(hub_rows(source, wanted), source, "row", problems, columns.answer_offsets))
    else:
        path = one_file(source)
        if is_nested(path):
            examples = list(_examples(_nested(path), source, "question", problems, columns.answer_offsets))
        elif extension_of(path) in COLUMN_EXTENSIONS:
            rows = read_rows(path, wanted, problems)
            examples = list(_examples(rows, str(path), "line", problems, columns.answer_offsets))
        else:
            raise InputError(f"{path} is plain text. Give questions as rows (.jsonl) or as .json of SQuAD.")
    if not examples:
        raise InputError(f"{source} is empty: it contains no question.")
    return examples


def is_nested(path: Path) -> bool:
    """Whether a file is nested JSON of SQuAD: one object with articles under `data`."""
    if extension_of(path) != ".json":
        return False
    begin = next(read_bytes(path), b"")[:PEEK].decode("utf-8", errors="replace").lstrip("\ufeff \t\r\n")
    return begin.startswith("{") and '"data"' in begin and '"question"' not in begin.partition('"data"')[0]


def _nested(path: Path) -> Iterator[Row]:
    """Yield (number of the question, [question, context, answers])."""
    try:
        content = parse_json(b"".join(read_bytes(path)).decode("utf-8-sig"))
        number = 0
        for article in content["data"]:
            for paragraph in article["paragraphs"]:
                for question in paragraph["qas"]:
                    number += 1
                    answers = [] if question.get("is_impossible") else question.get("answers", [])
                    yield number, [question["question"], paragraph["context"], answers]
    except ValueError as problem:
        raise InputError(f"{path} is not valid JSON ({problem}).") from None
    except (KeyError, TypeError, AttributeError) as problem:
        raise InputError(
            f"{path} does not have the structure of SQuAD: {problem}. It needs data > paragraphs > context and qas > "
            "question and answers > text and answer_start."
        ) from None


def _examples(rows: Iterator[Row], source: str, unit: str, problems: Problems, offsets: str) -> Iterator[SpanExample]:
    num_moved = 0
    for line, (question, context, *answers) in rows:
        where = f"{source}, {unit} {line}"
        sentence = None
        for value, name in ((question, "the question"), (context, "the context")):
            if problem := text_problem(value):
                sentence = sentence or problem.replace("the text", name)
            elif not value.strip():
                sentence = sentence or f"{name} is blank"
        found = _answers(answers[0]) if answers and not sentence else ()
        sentence = found if isinstance(found, str) else sentence
        if offsets == "nearest" and not isinstance(found, str):
            moved = [_nearest(answer, context) for answer in found]
            num_moved += sum(one != other for one, other in zip(moved, found, strict=True))
            found = tuple(dict.fromkeys(moved))
        for answer in found if not sentence else ():
            assert isinstance(answer, Answer)
            there = context[max(answer.start, 0) : max(answer.start, 0) + len(answer.text)]
            if there != answer.text or answer.start < 0:
                sentence = f"the answer {_short(answer.text)} is not at character {answer.start} of the context"
                sentence += f" ({_short(there)} is)" if answer.start >= 0 and there else ""
                break
        if sentence:
            problems.add(f"{where}: {sentence}.")
        else:
            assert not isinstance(found, str)
            yield SpanExample(question, context, found, source, line)
    problems.raise_found()
    if num_moved:
        verb = "was" if num_moved == 1 else "were"
        log.warning(
            "%s: %s %s not at the given character and %s moved to the nearest place in the context.",
            source, counted(num_moved, "answer"), verb, verb,
        )  # fmt: skip


def _nearest(answer: Answer, context: str) -> Answer:
    """The answer at the place in the context that is nearest to the given one; as it is if the context has no such
    text."""
    places = [found.start() for found in re.finditer(re.escape(answer.text), context)]
    return Answer(answer.text, min(places, key=lambda place: abs(place - answer.start), default=answer.start))


def _answers(value: Any) -> tuple[Answer, ...] | str:
    """The answers, in either of the two formats, or what is wrong with them."""
    if isinstance(value, str):  # in a .csv file they can be a JSON string
        try:
            value = parse_json(value)
        except ValueError:
            return "the answers are a string that is not JSON"
    if isinstance(value, dict):
        texts, starts = value.get("text"), value.get("answer_start")
        if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
            return 'the answers are not {"text": [...], "answer_start": [...]} with lists of the same length'
        pairs = list(zip(texts, starts, strict=True))
    elif isinstance(value, list):
        if not all(isinstance(one, dict) and {"text", "answer_start"} <= one.keys() for one in value):
            return 'the answers are not a list of {"text": ..., "answer_start": ...}'
        pairs = [(one["text"], one["answer_start"]) for one in value]
    else:
        return f"the answers are {kind_of(value)}, not an object or a list"
    for text, start in pairs:
        if not isinstance(text, str) or not text.strip():
            found = "blank" if isinstance(text, str) else kind_of(text)
            return f"an answer is {found}; write [] for an unanswerable question"
        if isinstance(start, bool) or not isinstance(start, int):
            return f"answer_start is {kind_of(start)}, not a whole number"
    return tuple(dict.fromkeys(Answer(text, start) for text, start in pairs))


def _short(text: str) -> str:
    return f"'{text}'" if len(text) <= 40 else f"'{text[:40]}...'"
