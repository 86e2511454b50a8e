"""Data sets through the library `datasets` (extra `hf`): `hf:owner/name[@config][#split]`, or `hf:FOLDER`.

This is the only module of the data room that may use the network, and only for sources that begin with `hf:`. Errors
of the library are raised as an `InputError`. named_sets.py decides which sources are data sets.
"""

import hashlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from headswap.core.errors import HeadswapError, InputError, MissingExtraError, counted, raise_problems
from headswap.core.files import sha256_of_file
from headswap.data.columns import Problems, Wanted, label_of, missing_columns, text_problem
from headswap.data.open_text import log_once
from headswap.data.records import Document, Example

PREFIX = "hf:"
DEFAULT_SPLIT = "train"
ROWS = 1000


class HubName(NamedTuple):
    """The parts of `hf:name[@config][#split]`."""

    name: str
    config: str | None
    split: str | None


def parse(source: str) -> HubName:
    """Parse a source; configuration and split are optional."""
    rest, _, split = source.removeprefix(PREFIX).partition("#")
    name, at, config = rest.rpartition("@")
    if not at or "/" in config:  # an @ inside a folder's name
        name, config = rest, ""
    if not name:
        raise InputError(
            f"'{source}' has no name of a data set. Write hf:owner/name, hf:owner/name@config or hf:owner/name#split."
        )
    return HubName(name, config or None, split or None)


def hub_splits(source: str) -> tuple[str, ...]:
    """The splits of the data set."""
    name, config, _ = parse(source)
    return tuple(_call(source, lambda library: library.get_dataset_split_names(name, config)))


def hub_documents(source: str, text_column: str) -> Iterator[Document]:
    """The texts of a split (default: train); blank texts are skipped."""
    problems = Problems()
    num_blank = 0
    for line, (text,) in hub_rows(source, {"text_column": text_column}):
        problems.pass_row()
        if problem := text_problem(text):
            problems.add(f"{source}, row {line}: {problem}.")
        elif not text.strip():
            num_blank += 1
        elif not problems.found:
            yield Document(text, source, line)
    problems.raise_found()
    if num_blank:
        log_once(f"{source}: skipped {counted(num_blank, 'row')} with a blank text.")


def hub_examples(source: str, text_column: str, label_column: str) -> list[Example]:
    """The examples of a split (default: train); class numbers are replaced by class names."""
    problems = Problems()
    examples = []
    for line, (text, value) in hub_rows(source, {"text_column": text_column, "label_column": label_column}):
        problems.pass_row()
        label = label_of(value)
        if problem := text_problem(text) or (None if text.strip() else "the text is blank"):
            problems.add(f"{source}, row {line}: {problem}.")
        elif label is None:
            problems.add(f"{source}, row {line}: the label is missing.")
        else:
            examples.append(Example(text, label, source, line))
    problems.raise_found()
    if not examples:
        raise InputError(f"{source} is empty: it contains no example.")
    return examples


def hub_hash(source: str) -> str:
    """A hash of the rows of a split, from the cache files of the library."""
    data = _load(source)
    digest = hashlib.sha256(repr((parse(source), len(data))).encode())
    for file in data.cache_files:
        digest.update(sha256_of_file(Path(file["filename"])).encode())
    return digest.hexdigest()


def hub_rows(source: str, wanted: Wanted) -> Iterator[tuple[int, list[Any]]]:
    """The wanted columns of a split (default: train); class numbers are replaced by class names."""
    data = _load(source)
    raise_problems(missing_columns(source, wanted, data.column_names))
    names = list(wanted.values())
    kinds = [data.features[name] for name in names]
    classes = [
        getattr(getattr(kind, "feature", kind), "names", None) for kind in kinds
    ]  # of a ClassLabel or a list of them
    line = 0
    for batch in data.select_columns(list(dict.fromkeys(names))).iter(batch_size=ROWS):
        for values in zip(*(batch[name] for name in names), strict=True):
            line += 1
            yield line, [_class_name(value, known) for value, known in zip(values, classes, strict=True)]


def _class_name(value: Any, known: list[str] | None) -> Any:
    if known is None or value is None:
        return value
    if isinstance(value, list):
        return [_class_name(one, known) for one in value]
    return known[value] if value >= 0 else None  # -1 means unlabelled in this library


def _load(source: str) -> Any:
    name, config, split = parse(source)

    def load(library: Any) -> Any:
        place = _place_of_copy(Path(name), library) if Path(name).is_dir() else None
        return library.load_dataset(name, config, split=split or DEFAULT_SPLIT, cache_dir=place)

    return _call(source, load)


def _place_of_copy(folder: Path, library: Any) -> str:
    """Where the library keeps its copy of a local folder: its own key is the files' mtime, ours is their content."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    contents = [(str(file.relative_to(folder)), sha256_of_file(file)) for file in files]
    digest = hashlib.sha256(repr(contents).encode()).hexdigest()[:16]
    return str(Path(library.config.HF_DATASETS_CACHE) / f"headswap-{digest}")


def _call(source: str, action: Callable[[Any], Any]) -> Any:
    """Call the library; any exception becomes an `InputError` of one sentence."""
    try:
        import datasets
    except ModuleNotFoundError:
        raise MissingExtraError(f"The data set {source}", extra="hf", package="datasets") from None
    if not sys.stderr.isatty():
        datasets.disable_progress_bars()
    try:
        return action(datasets)
    except HeadswapError:
        raise
    except ConnectionError as problem:
        raise InputError(
            f"{source} cannot be downloaded: the Hugging Face Hub is unreachable ({_first_line(problem)}). Check the "
            "network, or give a local folder as hf:FOLDER."
        ) from None
    except Exception as problem:
        raise InputError(f"{source} cannot be loaded: {_first_line(problem)}.") from None


def _first_line(problem: Exception) -> str:
    lines = str(problem).strip().splitlines() or [type(problem).__name__]
    return lines[0].rstrip(".")
