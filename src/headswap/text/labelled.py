"""A labelled set: texts with labels, from a file with columns, from two text files, or from a named data set.

Labels are strings throughout. The list of labels comes from train alone, and a label that train has not is an error
that names it. Nothing blank is passed over here: a text without its label, or the reverse, would shift or shrink the
set in silence. Rows are left to columns.py, the named data sets to datasets.py, the choice of examples to strata.py.
"""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from headswap.core.errors import InputError, absent, counted, did_you_mean, listed, raise_problems
from headswap.text.columns import COLUMN_EXTENSIONS, Problems, kind_of, label_of, read_rows, text_problem
from headswap.text.datasets import is_named, list_datasets, read_named_examples
from headswap.text.open_text import extension_of, read_lines
from headswap.text.records import Example
from headswap.text.strata import stratified_split, stratified_subset

__all__ = ["Example", "check_labels", "label_names", "read_labelled", "stratified_split", "stratified_subset"]


def read_labelled(source: str, *, text_column: str, label_column: str, label_file: str | None = None) -> list[Example]:
    """All examples of a labelled set, in order. Every blank or broken one is an error with its file and line."""
    if is_named(source):
        if label_file:
            raise InputError(f"{source} is a named data set and has its labels; leave out --label-file {label_file}.")
        return read_named_examples(source, text_column=text_column, label_column=label_column)
    path = _one_file(source)
    has_columns = extension_of(path) in COLUMN_EXTENSIONS
    if has_columns and label_file:
        raise InputError(f"{path} has a label column; --label-file {label_file} is for plain text files. Leave it out.")
    if not has_columns and not label_file:
        raise InputError(f"{path} is plain text and has no labels. Pass --label-file with a file of one label a line.")
    if label_file:
        examples = list(_paired_lines(path, _one_file(label_file)))
    else:
        examples = list(_labelled_rows(path, text_column, label_column))
    if not examples:
        raise InputError(f"{path} is empty: it holds no example.")
    return examples


def label_names(train: Sequence[Example]) -> list[str]:
    """The labels of the training set, sorted; fewer than two are an error."""
    labels = sorted({example.label for example in train})
    if len(labels) < 2:
        where = train[0].source if train else "The training set"
        found = f"one class only ({listed(labels)})" if labels else "no examples"
        raise InputError(f"{where} has {found}. A classifier needs at least two classes in its training set.")
    return labels


def check_labels(examples: Sequence[Example], labels: Sequence[str], *, role: str) -> None:
    """Raise if an example has a label that train has not; every such label is named once, with its first line."""
    known = set(labels)
    unseen: dict[str, list[Example]] = {}
    for example in examples:
        if example.label not in known:
            unseen.setdefault(example.label, []).append(example)
    raise_problems(
        [
            f"{found[0].source}, line {found[0].line}: the label '{label}' of the {role} set was never seen in train "
            f"({counted(len(found), 'example')}; labels in train: {listed(labels)}).{did_you_mean(label, labels)}"
            for label, found in unseen.items()
        ]
    )


def _one_file(source: str) -> Path:
    if source == "-":
        raise InputError("A labelled set cannot be read from standard input. Give a file.")
    path = Path(source).expanduser()
    if path.is_dir():
        raise InputError(f"{source} is a folder. A labelled set is one file.")
    if not path.exists():
        raise InputError(absent(source, names=[info.name for info in list_datasets()]))
    return path


def _labelled_rows(path: Path, text_column: str, label_column: str) -> Iterator[Example]:
    problems = Problems()
    wanted = {"text_column": text_column, "label_column": label_column}
    for line, (text, value) in read_rows(path, wanted, problems):
        where = f"{path}, line {line}"
        label = label_of(value)
        if problem := text_problem(text):
            problems.add(f"{where}: {problem}.")
        elif not text.strip():
            problems.add(f"{where}: the text is blank.")
        elif label is None:
            problems.add(f"{where}: the label is {_label_problem(value)}.")
        else:
            yield Example(text, label, str(path), line)


def _label_problem(value: Any) -> str:
    if isinstance(value, str):
        return "not text" if value.strip() else "blank"
    return f"{kind_of(value)} ({value}), not a string or a finite number" if value is not None else "null"


def _paired_lines(path: Path, label_path: Path) -> Iterator[Example]:
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
        elif not value.strip():
            problems.add(f"{label_path}, line {num_labels}: the label is blank.")
        else:
            yield Example(text, value.strip(), str(path), num_texts)
    if num_texts != num_labels:
        problems.found.insert(
            0, f"{path} has {num_texts:,} lines and {label_path} has {num_labels:,}; every text needs its label."
        )
    problems.raise_found()
