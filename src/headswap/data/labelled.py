"""A labelled set: texts with labels, from a file with columns, from two text files, or from a named data set.

Labels are strings; a multi-label text has several labels, and the label of a regression is also a number. The list of
labels is taken from train only; other labels in validation or test are an error. Blank texts and blank labels are
errors, because skipping them would silently shift or shrink the set. Rows are read by columns.py, named data sets by
named_sets.py; examples are sampled by stratify.py.
"""

import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from headswap.core.errors import InputError, SettingError, absent, listed, raise_problems
from headswap.core.kept_inputs import Kept, file_state
from headswap.data.columns import COLUMN_EXTENSIONS, Problems, Row, kind_of, label_of, read_rows, text_problem
from headswap.data.hub_sets import PREFIX, hub_rows
from headswap.data.named_sets import is_named, list_datasets, read_named_examples
from headswap.data.open_text import extension_of, irregular, read_lines
from headswap.data.records import Example
from headswap.data.seen_labels import check_seen

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
KEPT: Kept[tuple[Any, ...]] = Kept(512 * 2**20)
"""Examples of files with columns, in a process that keeps inputs."""
BYTES_PER_BYTE = 4  # memory of the examples of a file, about, in sizes of the file
FEWEST_NUMBERS = 10  # fewer different numbers may be classes, such as stars


class Parsed(NamedTuple):
    """A parsed value of the label column."""

    label: str
    labels: tuple[str, ...] = ()
    value: float = 0.0


class UnusableError(Exception):
    """A value is not a label of the wanted kind; the message says what it is."""


def one_label(value: Any) -> Parsed:
    """Parse one class name."""
    label = label_of(value)
    if label is None:
        raise UnusableError(f"the label is {_label_problem(value)}")
    return Parsed(sys.intern(label))  # a set has few classes and many rows


def several_labels(separator: str) -> Callable[[Any], Parsed]:
    """A parser of any number of class names: a list, or one string with `separator` between the names."""

    def parse(value: Any) -> Parsed:
        parts = value.split(separator) if isinstance(value, str) else value if isinstance(value, list) else [value]
        names = [label_of(part) for part in parts if not (isinstance(part, str) and not part.strip())]
        if None in names:
            raise UnusableError(
                "the label is null; write [] or an empty string for a text without labels"
                if value is None
                else f"the labels {value!r} contain a value that is neither a string nor a finite number"
            )
        labels = tuple(sorted({name for name in names if name is not None}))
        return Parsed(f"{separator} ".join(labels) if separator == "," else separator.join(labels), labels)

    return parse


def number(value: Any) -> Parsed:
    """Parse a finite number, or a string with one."""
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise ValueError
        found = float(value)
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        shown = "blank" if isinstance(value, str) and not value.strip() else repr(value)
        raise UnusableError(f"the label is {shown}, not a finite number")
    return Parsed(repr(found), (), found)


def read_labelled(
    source: str,
    *,
    text_column: str,
    label_column: str,
    label_file: str | None = None,
    text_pair_column: str | None = None,
    group_column: str | None = None,
    parse: Callable[[Any], Parsed] = one_label,
) -> list[Example]:
    """All examples of a labelled set, in order. Blank and invalid ones are errors with file and line."""
    wanted = {"text_column": text_column, "label_column": label_column}
    if text_pair_column is not None:
        wanted["text_pair_column"] = text_pair_column
    if group_column is not None:
        wanted["group_column"] = group_column
    has_group = group_column is not None
    if is_named(source):
        if label_file:
            raise InputError(f"{source} is a named data set and has labels. Leave out --label-file {label_file}.")
        if has_group and not source.startswith(PREFIX):
            raise SettingError(f"{source} is a named data set without groups. Leave --group-column out.")
        if parse is one_label and text_pair_column is None and not has_group:
            return read_named_examples(source, text_column=text_column, label_column=label_column)
        if not source.startswith(PREFIX):
            raise SettingError(
                f"{source} has one text and one label per row. Use --task classify without text_pair_column."
            )
        examples = list(_examples(hub_rows(source, wanted), source, "row", Problems(), parse, has_group))
    else:
        path = one_file(source)
        has_columns = extension_of(path) in COLUMN_EXTENSIONS
        if has_columns and label_file:
            raise InputError(
                f"{path} has a label column; --label-file {label_file} is for plain text files. Leave it out."
            )
        if not has_columns and not label_file:
            raise InputError(
                f"{path} is plain text and has no labels. Pass --label-file with a file that has one label per line."
            )
        if label_file:
            if text_pair_column is not None:
                raise SettingError(
                    f"text_pair_column is given, but {path} has no columns. Pairs need a file with columns."
                )
            if has_group:
                raise SettingError(
                    f"group_column is given, but {path} has no columns. Groups need a file with columns."
                )
            examples = list(_paired_lines(path, one_file(label_file), parse))
        else:
            key = (file_state(path), tuple(wanted.items())) if parse is one_label else None
            examples = list(KEPT.find(key) or ()) or _read_columns(path, wanted, parse)
            if key is not None:
                KEPT.add(key, tuple(examples), BYTES_PER_BYTE * path.stat().st_size)
    if not examples:
        raise InputError(f"{source} is empty: it contains no example.")
    return examples


def _read_columns(path: Path, wanted: dict[str, str], parse: Callable[[Any], Parsed]) -> list[Example]:
    problems = Problems()
    rows = read_rows(path, wanted, problems)
    return list(_examples(rows, str(path), "line", problems, parse, "group_column" in wanted))


def label_names(train: Sequence[Example]) -> list[str]:
    """The labels of the training set, sorted. Fewer than two are an error."""
    labels = sorted({example.label for example in train})
    if len(labels) < 2:
        where = train[0].source if train else "The training set"
        found = f"only one class ({listed(labels)})" if labels else "no examples"
        raise InputError(f"{where} has {found}. A classifier needs at least two classes in its training set.")
    return labels


def check_labels(examples: Sequence[Example], labels: Sequence[str], *, role: str) -> None:
    """Raise if the label of an example is not among `labels`, the labels of train."""
    check_seen(
        examples,
        labels,
        role=role,
        labels_of=lambda example: (example.label,),
        hint=lambda unseen: _number_hint([*labels, *unseen]),
    )


def _number_hint(labels: Sequence[str]) -> str:
    """A hint for labels that look like numbers of a regression: there are many, and most of them are numbers."""
    numbers = [label for label in labels if NUMBER.fullmatch(label)]
    if len(numbers) < FEWEST_NUMBERS or 2 * len(numbers) < len(labels):
        return ""
    return "The labels look like numbers. To predict numbers, fine-tune with --task regress."


def one_file(source: str) -> Path:
    """The path of a labelled set, which must be one existing file."""
    if source == "-":
        raise InputError("A labelled set cannot be read from standard input. Give a file.")
    path = Path(os.path.expanduser(source))
    if path.is_dir():
        raise InputError(f"{source} is a folder, but a labelled set is one file. Give a file.")
    if not path.exists():
        raise InputError(absent(source, names=[info.name for info in list_datasets()]))
    if problem := irregular(path):
        raise InputError(problem)
    return path


def _examples(
    rows: Iterable[Row],
    source: str,
    unit: str,
    problems: Problems,
    parse: Callable[[Any], Parsed],
    has_group: bool = False,
) -> Iterator[Example]:
    for line, (text, value, *pair) in rows:
        where = f"{source}, {unit} {line}"
        group = label_of(given := pair.pop()) if has_group else None
        sentence = _text_problem(text, *pair)
        if has_group and group is None:
            sentence = sentence or f"the group is {_label_problem(given)}"
        try:
            parsed = parse(value)
        except UnusableError as problem:
            parsed, sentence = Parsed(""), sentence or str(problem)
        if sentence:
            problems.add(f"{where}: {sentence}.")
        else:
            second = pair[0] if pair else None
            yield Example(text, parsed.label, source, line, second, parsed.labels, parsed.value, group)
    problems.raise_found()


def _text_problem(text: Any, pair: Any = "x") -> str | None:
    """What is wrong with a text or the second text of a pair, or None."""
    for value, name in ((text, "the text"), (pair, "the second text")):
        if problem := text_problem(value):
            return problem.replace("the text", name)
        if not value.strip():
            return f"{name} is blank"
    return None


def _label_problem(value: Any) -> str:
    if isinstance(value, str):
        return "not text" if value.strip() else "blank"
    return f"{kind_of(value)} ({value}), not a string or a finite number" if value is not None else "null"


def _paired_lines(path: Path, label_path: Path, parse: Callable[[Any], Parsed]) -> Iterator[Example]:
    problems = Problems()
    num_texts = num_labels = 0
    for text, value in zip_longest(read_lines(path), read_lines(label_path)):
        num_texts += text is not None
        num_labels += value is not None
        if text is None or value is None:
            continue
        problems.pass_row()
        if not text.strip():
            problems.add(f"{path}, line {num_texts}: the text is blank.")
        else:
            try:
                parsed = parse(value)
            except UnusableError as problem:
                problems.add(f"{label_path}, line {num_labels}: {problem}.")
                continue
            yield Example(text, parsed.label, str(path), num_texts, None, parsed.labels, parsed.value)
    if num_texts != num_labels:
        uneven = (
            f"{path} has {num_texts:,} lines and {label_path} has {num_labels:,}. Every text needs one label, so both "
            "files must have the same number of lines."
        )
        raise_problems([uneven, *problems.found])
    problems.raise_found()
