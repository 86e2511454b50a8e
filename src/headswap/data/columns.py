"""Files with named columns (.jsonl, .csv, .tsv, .parquet), read row by row.

`read_rows` yields the wanted columns of each row and the line on which the row begins. Invalid rows are collected in
`Problems` and raised together, once per file. This module also defines which values are valid texts and labels. Which
columns are read is decided in documents.py, labelled.py, tagged.py and questions.py.
"""

import csv
import json
import math
import shlex
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from headswap.core.errors import (
    MOST_PROBLEMS_SHOWN,
    InputError,
    MissingExtraError,
    did_you_mean,
    listed,
    raise_problems,
)
from headswap.data.open_text import LONGEST_LINE, compression_of, extension_of, read_bytes, read_lines

COLUMN_EXTENSIONS = frozenset({".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet"})
LARGEST_FIELD = 1 << 26  # characters of one .csv field: an unclosed quote must not fill the memory
ROWS_AFTER_PROBLEM = 10_000
PARQUET_ROWS = 1024

Wanted = Mapping[str, str]
"""The wanted columns: name of the setting (such as `text_column`) -> name of the column."""
Row = tuple[int, list[Any]]
"""The line on which a row begins, and its values in the order of the wanted columns."""


class Problems:
    """The problems of one file, raised together at its end, or earlier when enough were found."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._rows_since = 0

    def add(self, sentence: str) -> None:
        """Add a problem; raise all when the message would show no more."""
        self.found.append(sentence)
        if len(self.found) >= MOST_PROBLEMS_SHOWN:
            self.raise_found()

    def pass_row(self) -> None:
        """Count a row: after the first problem only `ROWS_AFTER_PROBLEM` more rows are checked."""
        if self.found:
            self._rows_since += 1
            if self._rows_since > ROWS_AFTER_PROBLEM:
                self.raise_found()

    def raise_found(self) -> None:
        """Raise the problems, if any, with advice what to do."""
        if self.found:
            advice = (
                "Correct this line, or remove it." if len(self.found) == 1 else "Correct these lines, or remove them."
            )
            if len(self.found) >= MOST_PROBLEMS_SHOWN:
                advice += f" These are the first {MOST_PROBLEMS_SHOWN}; the rest was not checked."
            raise_problems([*self.found[:-1], f"{self.found[-1]} {advice}"])


def read_rows(path: Path, wanted: Wanted, problems: Problems) -> Iterator[Row]:
    """Yield the wanted values of each row. Invalid rows are added to `problems`, which are raised at the end."""
    extension = extension_of(path)
    assert extension in COLUMN_EXTENSIONS, extension
    if extension == ".parquet":
        rows = _parquet_rows(path, wanted)
    elif extension in (".csv", ".tsv"):
        rows = _csv_rows(path, wanted, problems, delimiter="," if extension == ".csv" else "\t")
    else:
        rows = _json_rows(path, wanted, problems)
    for row in rows:
        problems.pass_row()
        yield row
    problems.raise_found()


def column_names(path: Path) -> list[str]:
    """The names of all columns of a file; of .jsonl, the keys of all its objects. Invalid rows are left to the reader.

    With these names a reader can ask for optional columns where they exist.
    """
    extension = extension_of(path)
    if extension == ".parquet":
        return _parquet_names(path)
    if extension in (".csv", ".tsv"):
        delimiter = "," if extension == ".csv" else "\t"
        reader = csv.reader(read_lines(path, keep_ends=True), delimiter=delimiter, strict=True)
        return next(_numbered(reader, path), (0, []))[1]
    objects = (_json_object(text)[0] for text in read_lines(path) if text.strip())
    return list(dict.fromkeys(name for row in objects for name in row))


def missing_columns(where: str, wanted: Wanted, columns: Sequence[str]) -> list[str]:
    """One sentence per wanted column that is not in `columns`."""
    sentences = []
    for setting, name in wanted.items():
        if name in columns:
            continue
        flag = f"--{setting.replace('_', '-')}"
        if len(columns) == 1 and (sign := next((sign for sign in ";\t|" if sign in columns[0]), None)):
            sentences.append(
                f"{where} has one column, '{columns[0][:40]}': its fields seem to be separated by {sign!r}. "
                "A .csv file needs commas and a .tsv file needs tabs. Convert it, or rename it to .tsv if it has tabs."
            )
            break
        others = [column for column in columns if column not in wanted.values()]
        hint = f"Pass {flag} {shlex.quote(others[0])}." if len(others) == 1 else f"Pass {flag} with the right one."
        shown = listed(column if len(column) <= 40 else f"{column[:40]}..." for column in columns) or "none"
        sentences.append(f"{where} has no column '{name}' (columns: {shown}).{did_you_mean(name, others)} {hint}")
    return sentences


def _json_rows(path: Path, wanted: Wanted, problems: Problems) -> Iterator[Row]:
    is_first = True
    for line, text in enumerate(read_lines(path), start=1):
        if not text.strip():
            continue
        row, problem = _json_object(text)
        if problem and is_first and (text.strip()[0] == "[" or text.strip() == "{"):
            raise InputError(
                f"{path}, line {line}: {problem}. The file seems to be one JSON value; write one object per line."
            )
        if problem:
            problems.add(f"{path}, line {line}: {problem}.")
        elif missing := missing_columns(str(path) if is_first else f"{path}, line {line}", wanted, list(row)):
            if is_first:  # most likely all rows lack it: reported once
                raise_problems(missing)
            problems.add(" ".join(missing))
        else:
            yield line, [row[name] for name in wanted.values()]
        is_first = False


def _json_object(text: str) -> tuple[dict[str, Any], str | None]:
    """The JSON object of a line, and what is wrong with it or None."""
    try:
        row = json.loads(text, object_pairs_hook=_object_of)
    except json.JSONDecodeError as problem:
        return {}, f"not valid JSON ({problem.msg}, column {problem.colno})"
    except RecursionError:
        return {}, "not valid JSON (nested too deeply)"
    except ValueError as problem:  # a number with thousands of digits, or a repeated key
        reason = "a number has too many digits" if "digits" in str(problem) else problem
        return {}, f"not valid JSON ({reason})"
    if not isinstance(row, dict):
        return {}, f'{kind_of(row)}, but a JSON object such as {{"text": "..."}} is needed'
    return row, None


def _object_of(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; a repeated key is an error, because one of its values would be lost silently."""
    row = dict(pairs)
    if len(row) != len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key '{next(key for key in keys if keys.count(key) > 1)}' occurs twice")
    return row


def _csv_rows(path: Path, wanted: Wanted, problems: Problems, *, delimiter: str) -> Iterator[Row]:
    csv.field_size_limit(max(csv.field_size_limit(), LARGEST_FIELD))
    reader = csv.reader(read_lines(path, keep_ends=True), delimiter=delimiter, strict=True)
    rows = _numbered(reader, path)
    _, header = next(rows, (0, []))
    if not header:
        return
    raise_problems(missing_columns(str(path), wanted, header))
    raise_problems(_repeated_columns(path, wanted, header))
    positions = [header.index(name) for name in wanted.values()]
    for line, fields in rows:
        if len(fields) != len(header):
            hint = " Put a field that contains the delimiter in double quotes." if len(fields) > len(header) else ""
            problems.add(f"{path}, line {line}: {len(fields)} fields, but the header has {len(header)}.{hint}")
        elif delimiter == "\t" and any("\t" in field and "\n" in field for field in fields):
            raise InputError(
                f"{path}, line {line}: a quoted field contains tabs and line ends. Double the quotes that are part of "
                "a text and quote the field, or write the data as .jsonl."
            )
        else:
            yield line, [fields[position] for position in positions]


def _numbered(reader: Any, path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows with the line on which each begins; a blank line is a row only where the file has one column."""
    num_columns, blanks = 0, list[int]()
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as problem:
            reason = str(problem).partition(" - ")[0]
            if "new-line character" in reason:
                raise InputError(
                    f"{path}, line {line}: a carriage return (CR) without a line feed, as in files of old Macintosh "
                    "programs. Convert the line ends, for example with: tr '\\r' '\\n' < OLD > NEW"
                ) from None
            raise InputError(
                f"{path}, line {line}: invalid quoting ({reason}). A field that begins with a double quote must end "
                "with one, and quotes inside it must be doubled."
            ) from None
        if fields:
            num_columns = num_columns or len(fields)
            yield from ((blank, [""]) for blank in blanks)
            blanks.clear()
            yield line, fields
        elif num_columns == 1:
            blanks.append(line)  # an empty field, unless it is at the end of the file


def _repeated_columns(path: Path, wanted: Wanted, names: Sequence[str]) -> list[str]:
    twice = [name for name in wanted.values() if names.count(name) > 1]
    return [f"{path} has the column '{name}' twice. Rename or remove one of them." for name in twice]


def _pyarrow(path: Path) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError:
        raise MissingExtraError(f"Reading {path}", extra="parquet", package="pyarrow") from None
    return pyarrow


def _parquet_names(path: Path) -> list[str]:
    pyarrow = _pyarrow(path)
    with _seekable(path) as file:
        try:
            return list(pyarrow.parquet.ParquetFile(file).schema_arrow.names)
        except (pyarrow.ArrowException, OSError) as problem:
            raise InputError(f"{path} is not valid parquet ({str(problem).splitlines()[0]}).") from None


def _parquet_rows(path: Path, wanted: Wanted) -> Iterator[Row]:
    pyarrow = _pyarrow(path)
    line = 0
    with _seekable(path) as file:
        try:
            table = pyarrow.parquet.ParquetFile(file)
            names = table.schema_arrow.names
            raise_problems(missing_columns(str(path), wanted, names))
            raise_problems(_repeated_columns(path, wanted, names))
            for batch in table.iter_batches(batch_size=PARQUET_ROWS, columns=list(dict.fromkeys(wanted.values()))):
                columns = [batch.column(name).to_pylist() for name in wanted.values()]
                for values in zip(*columns, strict=True):
                    line += 1
                    yield line, list(values)
        except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as problem:
            where = f", near row {line + 1}" if line else ""
            raise InputError(f"{path}{where} is not valid parquet ({str(problem).splitlines()[0]}).") from None


def _seekable(path: Path) -> BinaryIO:
    """Open a file for random access, as parquet needs; a compressed file is first unpacked to the disk."""
    if compression_of(path) is None:
        next(read_bytes(path), b"")  # an unreadable file is reported here
        return path.open("rb")
    unpacked = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    for piece in read_bytes(path):
        unpacked.write(piece)
    unpacked.seek(0)
    return unpacked


def text_problem(value: Any) -> str | None:
    """Why this value is not a valid text, or None. Blank texts are checked by the caller."""
    if not isinstance(value, str):
        return f"the text is {kind_of(value)}, not a string"
    if len(value) > LONGEST_LINE:
        return f"the text has {len(value):,} characters, more than {LONGEST_LINE:,}"
    if "\0" in value:
        return "the text contains a NUL character"
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as problem:  # JSON can contain half of a surrogate pair
            return f"the text contains U+{ord(value[problem.start]):04X}, half of a surrogate pair"
    return None


def label_of(value: Any) -> str | None:
    """The label as a stripped string; numbers and booleans as in JSON. None if the value is not a valid label."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and math.isfinite(value):
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str) and text_problem(value) is None:
        return value.strip() or None
    return None


def kind_of(value: Any) -> str:
    """The type of a value, in words."""
    names = {
        dict: "an object", list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number",
        bytes: "a sequence of bytes",
    }  # fmt: skip
    return "null" if value is None else names.get(type(value), f"a {type(value).__name__}")
