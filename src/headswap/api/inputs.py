"""Data that is already in memory: lists, pandas and polars frames, `datasets.Dataset`.

Rows are written once, as JSON lines, into the cache under the hash of their content, and read from there like any file.
So the same checks, splits and checksums apply, and the same data give the same file when a run is resumed.
"""

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike, fspath
from typing import Any

from headswap.core.errors import InputError
from headswap.data.rows_in_memory import cached_rows

PathName = str | PathLike[str]
Rows = Any
"""A frame of pandas or polars, a `datasets.Dataset`, a list of dictionaries, or a list of (text, label) pairs."""


class Texts(list[str]):
    """A list of texts to pre-train on. A plain list of strings is a list of file names."""


def as_corpus(given: PathName | Sequence[PathName] | Rows) -> tuple[str, ...]:
    """The sources of a corpus: names of files and data sets, or the file that rows in memory were written to."""
    if isinstance(given, str | PathLike):
        return (fspath(given),)
    if isinstance(given, Texts):
        return (cached_rows({"text": text} for text in given),)
    if is_frame(given) or _is_records(given):
        return (cached_rows(records(given)),)
    return tuple(fspath(name) for name in given)


def as_labelled(given: PathName | Rows) -> str:
    """The name of a labelled set: a file or data set, or the file that rows in memory were written to."""
    if isinstance(given, str | PathLike):
        return fspath(given)
    return cached_rows(records(given))


def as_inputs(given: Iterable[Any]) -> list[Any]:
    """What a model is asked about, as a list: also from a column of pandas, polars or NumPy."""
    if isinstance(given, str):
        raise InputError("Give a list of texts, not one string. Put it in a list: [text].")
    if is_frame(given) or isinstance(given, Mapping):
        raise InputError("Give one column of texts, for example frame['text'], not a whole table.")
    found = given.tolist() if hasattr(given, "tolist") else given
    return list(found)


def is_frame(given: Any) -> bool:
    """Whether this is a table with named columns, of pandas, polars or datasets."""
    return hasattr(given, "to_dicts") or hasattr(given, "column_names") or _is_pandas(given)


def records(given: Rows) -> Iterable[dict[str, Any]]:
    """The rows of a table or a list as dictionaries."""
    if hasattr(given, "to_dicts"):  # polars
        return given.to_dicts()
    if hasattr(given, "column_names"):  # datasets
        return _named_classes(given)
    if _is_pandas(given):
        return given.to_dict("records")
    if _is_records(given):
        return given
    pairs = list(given)
    if not pairs:
        raise InputError("The labelled set is empty. Give at least one row per label.")
    if all(isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2 for pair in pairs):
        return [{"text": text, "label": label} for text, label in pairs]
    raise InputError(
        f"{type(given).__name__} cannot be read as a labelled set. Give a file, a pandas or polars frame, a "
        "datasets.Dataset, a list of dictionaries, or a list of (text, label) pairs."
    )


def _is_pandas(given: Any) -> bool:
    return type(given).__module__.partition(".")[0] == "pandas" and hasattr(given, "columns")


def _is_records(given: Any) -> bool:
    is_list = isinstance(given, Sequence) and not isinstance(given, str)
    return is_list and bool(given) and all(isinstance(row, Mapping) for row in given)


def _named_classes(data: Any) -> Iterable[dict[str, Any]]:
    """The rows of a `datasets.Dataset`, class numbers replaced by their names; -1 means no label there."""
    names = {name: getattr(feature, "names", None) for name, feature in (getattr(data, "features", None) or {}).items()}
    for row in data:
        yield {name: _class_name(value, names.get(name)) for name, value in row.items()}


def _class_name(value: Any, names: Sequence[str] | None) -> Any:
    if names is None or not isinstance(value, int):
        return value
    return names[value] if value >= 0 else None
