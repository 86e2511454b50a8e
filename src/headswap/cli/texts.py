"""Where the inputs of `predict` and its like come from: arguments, a file, or standard input."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from headswap.bundle.task_state import TaskState
from headswap.core.errors import InputError, SettingError
from headswap.data.columns import COLUMN_EXTENSIONS, Problems, read_rows, text_problem
from headswap.data.config import ColumnSettings
from headswap.data.documents import read_texts
from headswap.data.labelled import one_file
from headswap.data.open_text import decode_lines, extension_of, pieces_of
from headswap.data.questions import read_questions
from headswap.data.tagged import CONLL_EXTENSIONS, read_tagged


class InputColumns(NamedTuple):
    """The columns of a file of inputs, where their names were given."""

    text_column: str | None = None
    text_pair_column: str | None = None
    tokens_column: str | None = None
    question_column: str | None = None
    context_column: str | None = None


USED = {
    "pair": ("text_column", "text_pair_column"),
    "tag": ("text_column", "tokens_column"),
    "span": ("question_column", "context_column"),
    "text": ("text_column",),
}


def inputs_to_read(
    state: TaskState, given: Sequence[str], file: str | None, columns: InputColumns, second: Mapping[str, str | None]
) -> list[Any]:
    """What a model is asked, as its task wants it: texts, pairs, sentences or (question, context)."""
    kind = "pair" if state.reads_pairs else state.task if state.task in ("tag", "span") else "text"
    needed = {"pair": "text-pair", "span": "question"}.get(kind)
    _refuse_idle(kind, columns, {name: value for name, value in second.items() if name != needed})
    if needed is None:
        if kind == "tag" and file not in (None, "-") and not given and columns.text_column is None:
            return _sentences(str(file), columns)
        return texts_to_read(given, file, columns.text_column)
    other = second[needed]
    if file is not None:
        if given or other is not None:
            raise SettingError(f"Texts or --{needed}, and --file are both given. Give one of them.")
        return _pairs(file, columns) if kind == "pair" else _questions(file, columns)
    if not given or other is None:
        what = "pairs of texts" if kind == "pair" else "questions about a context"
        raise SettingError(f"This model reads {what}. Pass TEXT and --{needed}, or --file with both columns.")
    if named := [name for name in USED[kind] if getattr(columns, name) is not None]:
        raise SettingError(
            f"--{named[0].replace('_', '-')} is for a file with columns. Pass --file F, or leave it out."
        )
    return [(text, other) if kind == "pair" else (other, text) for text in given]


def texts_to_read(given: Sequence[str], file: str | None, text_column: str | None) -> list[str]:
    """The texts in their order; blank ones in a file are an error, since answers come in input order."""
    if given and file is not None:
        raise SettingError("Texts and --file are both given. Give one of them.")
    if "-" in given:
        if len(given) > 1:
            raise SettingError("- is standard input and cannot be mixed with texts. Give one of them.")
        given, file = (), "-"
    if text_column is not None and (given or file in (None, "-")):
        raise SettingError("--text-column is for a file with columns. Pass --file F, or leave it out.")
    if given:
        return list(given)
    if file is None and sys.stdin.isatty():
        raise SettingError("No text is given. Pass texts, --file F, or pipe one text a line.")
    if file is None or file == "-":
        texts, name = _standard_input(), "Standard input"
    else:
        texts, name = read_texts(file, text_column=text_column), file
    if file is None or extension_of(Path(file)) not in COLUMN_EXTENSIONS:  # blank lines at the end hold no place
        while texts and not texts[-1].strip():
            texts.pop()
    blank = [number for number, text in enumerate(texts, 1) if not text.strip()]
    if blank or not texts:
        where = f" at line {blank[0]}" if blank else ""
        raise InputError(f"{name} has no text{where}. Every line must hold a text, since answers come in input order.")
    return texts


def _standard_input() -> list[str]:
    """The lines of standard input; bytes that are not UTF-8 are an error with their line."""
    if not hasattr(sys.stdin, "buffer"):  # replaced by something that holds text already
        return [line.rstrip("\r\n") for line in sys.stdin]
    return list(decode_lines(pieces_of(sys.stdin.buffer), name="Standard input"))


def _refuse_idle(kind: str, columns: InputColumns, second: Mapping[str, str | None]) -> None:
    """Refuse flags that would have no effect on this model."""
    idle = [name for name, value in columns._asdict().items() if value is not None and name not in USED[kind]]
    idle += [name for name, value in second.items() if value is not None]
    if idle:
        flags = " and ".join(f"--{name.replace('_', '-')}" for name in idle)
        raise SettingError(f"{flags} cannot be used: this model does not read it.")


def _sentences(file: str, columns: InputColumns) -> list[Any]:
    """Words from a .conll file or a tokens column; a plain text file has a raw text a line."""
    extension = extension_of(Path(file))
    if extension not in CONLL_EXTENSIONS | COLUMN_EXTENSIONS:
        if columns.tokens_column is not None:
            raise SettingError(f"tokens_column is '{columns.tokens_column}', but {file} has no columns. Leave it out.")
        return texts_to_read((), file, None)
    names = ColumnSettings(tokens_column=columns.tokens_column or ColumnSettings().tokens_column)
    return [example.tokens for example in read_tagged(file, names, needs_tags=False)]


def _questions(file: str, columns: InputColumns) -> list[tuple[str, str]]:
    default = ColumnSettings()
    names = ColumnSettings(
        question_column=columns.question_column or default.question_column,
        context_column=columns.context_column or default.context_column,
    )
    return [(example.question, example.context) for example in read_questions(file, names, needs_answers=False)]


def _pairs(file: str, columns: InputColumns) -> list[tuple[str, str]]:
    path = one_file(file)
    if extension_of(path) not in COLUMN_EXTENSIONS:
        raise InputError(f"{path} has no columns. Pairs need a file that has (.jsonl, .csv, .tsv, .parquet).")
    wanted = {
        "text_column": columns.text_column or "text",
        "text_pair_column": columns.text_pair_column or "text_pair",
    }
    problems, pairs = Problems(), []
    for line, values in read_rows(path, wanted, problems):
        for value in values:
            if problem := text_problem(value) or (None if value.strip() else "the text is blank"):
                problems.add(f"{path}, line {line}: {problem}.")
        pairs.append((values[0], values[1]))
    problems.raise_found()
    return pairs
