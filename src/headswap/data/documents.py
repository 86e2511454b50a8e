"""A corpus: a stream of documents from files, folders, globs, addresses, standard input and named data sets.

In a plain text file a document is a line, a paragraph or the whole file; in a file with columns it is the text of a
row. Blank documents are skipped; a file without other documents is an error. Files are opened by open_text.py, rows are
read by columns.py, named data sets by named_sets.py. Callers handle token stores themselves.
"""

import glob
import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Literal

from headswap.core.errors import InputError, SettingError, absent, counted, raise_problems
from headswap.core.ownership import unique
from headswap.data.columns import COLUMN_EXTENSIONS, Problems, read_rows, text_problem
from headswap.data.config import ReadSettings
from headswap.data.named_sets import is_named, list_datasets, read_named_documents
from headswap.data.open_text import decode_lines, extension_of, irregular, log_once, pieces_of, read_lines
from headswap.data.records import Document
from headswap.data.remote_files import fetch, is_remote, list_remote

STDIN = "-"
STDIN_FILE = "stdin"  # while it is copied
REMOTE_FOLDER = "remote"  # in the cache: copies of files at addresses
TEXT_EXTENSIONS = frozenset({".txt", ".spm"})  # .spm: text segmented by sentencepiece, as in the files of the lab
KNOWN_EXTENSIONS = TEXT_EXTENSIONS | COLUMN_EXTENSIONS
PEEK = 1 << 20  # characters that are read to decide between lines and paragraphs
UNITS = ("line", "paragraph")
"""What `auto` chooses from."""
PARAGRAPH_SHARE = 0.1  # of blank lines; from this share on they separate documents


def find_files(sources: Sequence[str]) -> list[Path]:
    """The files of paths, folders and globs; folders are searched and sorted, and each file is listed once."""
    items = _items(sources)
    raise_problems([f"{item} is not a file. Give files, folders or globs." for item in items if isinstance(item, str)])
    return [item for item in items if isinstance(item, Path)]


def files_read(sources: Sequence[str]) -> list[Path]:
    """The files of a corpus, without its named data sets and standard input."""
    return [item for item in _items(sources) if isinstance(item, Path)]


def read_documents(sources: Sequence[str], settings: ReadSettings) -> Iterator[Document]:
    """Yield all documents of a corpus in the order of the sources. Missing files are reported before the first one."""
    items = _items(sources)
    check_text_column(items, settings)
    return _documents(items, settings, logged=set())


def check_text_column(sources: Sequence[Path | str], settings: ReadSettings) -> None:
    """Raise if a text column is set and no file of the corpus has columns."""
    if settings.not_default(["text_column"]) and not _has_columns(sources):
        raise SettingError(
            f"text_column is '{settings.text_column}', but no file of the corpus has columns. Leave it out."
        )


def read_file_documents(path: Path, settings: ReadSettings, logged: set[str]) -> Iterator[Document]:
    """The documents of one file of a corpus; it may be one without columns of a corpus that has others with columns.

    `logged` has the units and extensions whose messages are not logged again; those of this file are added.
    """
    return _documents([path], settings, logged)


def has_columns(sources: Sequence[str]) -> bool:
    """Whether any source of a corpus has columns."""
    return _has_columns(_items(sources))


def _has_columns(items: Sequence[Path | str]) -> bool:
    return any(isinstance(item, str) or extension_of(item) in COLUMN_EXTENSIONS for item in items)


def read_texts(source: str, *, text_column: str | None = None) -> list[str]:
    """All lines or rows of one file, including blank ones, so that predictions keep the order of the file."""
    return list(stream_texts(source, text_column=text_column))


def stream_texts(source: str, *, text_column: str | None = None) -> Iterator[str]:
    """The same one by one; problems of rows are raised at the end."""
    files = find_files([source])
    if len(files) != 1:
        raise InputError(f"{source} matches {len(files)} files. Give one file.")
    (path,) = files
    if extension_of(path) not in COLUMN_EXTENSIONS:
        if text_column is not None:
            raise SettingError(f"text_column is '{text_column}', but {path} has no columns. Leave it out.")
        yield from read_lines(path)
        return
    problems = Problems()
    for line, (value,) in read_rows(path, {"text_column": text_column or ReadSettings().text_column}, problems):
        if problem := text_problem(value):
            problems.add(f"{path}, line {line}: {problem}.")
        yield value if isinstance(value, str) else ""
    problems.raise_found()


def spool_stdin(folder: Path) -> Path:
    """Copy standard input to a file named by its SHA-256 in `folder`, so that it can be read more than once."""
    folder.mkdir(parents=True, exist_ok=True)
    temporary = unique(folder / STDIN_FILE)
    digest = hashlib.sha256()
    try:
        with temporary.open("xb") as file:
            for piece in pieces_of(sys.stdin.buffer):
                digest.update(piece)
                file.write(piece)
        if temporary.stat().st_size == 0:
            raise InputError("Standard input is empty: it contains no document.")
        path = folder / f"{digest.hexdigest()}.txt"
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    return path


def _items(sources: Sequence[str]) -> list[str | Path]:
    """The sources in order: files (each once) as paths, standard input and named data sets as strings."""
    problems: list[str] = []
    items: dict[str | Path, str | Path] = {}
    for source in sources:
        if source == STDIN or is_named(source):
            items[source] = source
            continue
        for path in _files_of(source, problems):
            if problem := irregular(path):
                problems.append(problem)
            items.setdefault(path.resolve(), path)
    raise_problems(problems)
    return list(items.values())


def _files_of(source: str, problems: list[str]) -> list[Path]:
    if is_remote(source):
        from headswap.data.content_hash import cache_folder

        return [fetch(file, cache_folder() / REMOTE_FOLDER) for file in list_remote(source, KNOWN_EXTENSIONS)]
    path = Path(os.path.expanduser(source))
    if path.is_dir():
        files, num_unknown = _files_in(path)
        if not files:
            known = ", ".join(sorted(KNOWN_EXTENSIONS))
            problems.append(
                f"The folder {source} contains no text files ({known}, also compressed as .gz, .xz or .zst)."
            )
        elif num_unknown:
            log_once(f"{source}: skipped {counted(num_unknown, 'file')} without a known text extension.")
        return files
    if path.exists():
        return [path]
    if not any(sign in source for sign in "*?["):
        names = [info.name for info in list_datasets()]
        problems.append(absent(source, names=names))
        return []
    matches = [Path(match) for match in sorted(glob.glob(str(path), recursive=True))]
    files = [file for match in matches for file in (_files_in(match)[0] if match.is_dir() else [match])]
    if not files:
        problems.append(f"No file matches {source}.")
    return files


def _files_in(folder: Path) -> tuple[list[Path], int]:
    """The text files below a folder, sorted, and the number of other files. Hidden files are ignored."""
    files: list[Path] = []
    num_unknown = 0
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(name for name in names if not name.startswith(".")):
            if extension_of(Path(name)) in KNOWN_EXTENSIONS:
                files.append(Path(place) / name)
            else:
                num_unknown += 1
    return sorted(files), num_unknown


def _documents(items: Iterable[str | Path], settings: ReadSettings, logged: set[str]) -> Iterator[Document]:
    """`logged` are messages that are logged once for all files."""
    for item in items:
        if isinstance(item, Path):
            documents = _file_documents(item, settings, logged)
        elif item == STDIN:
            lines = decode_lines(pieces_of(sys.stdin.buffer), name="Standard input")
            documents = _text_documents(lines, "Standard input", settings, logged)
        else:
            documents = read_named_documents(item, text_column=settings.text_column)
        is_empty = True
        for document in documents:
            is_empty = False
            yield document
        if is_empty:
            raise InputError(f"{'Standard input' if item == STDIN else item} is empty: it contains no document.")


def _file_documents(path: Path, settings: ReadSettings, logged: set[str]) -> Iterator[Document]:
    extension = extension_of(path)
    if extension in COLUMN_EXTENSIONS:
        return _row_documents(path, settings)
    if extension not in TEXT_EXTENSIONS and extension not in logged:
        logged.add(extension)
        what = f"'{extension}' is not a known extension" if extension else "it has no extension"
        log_once(f"{path}: read as plain text, because {what}.")
    return _text_documents(read_lines(path), str(path), settings, logged)


def _row_documents(path: Path, settings: ReadSettings) -> Iterator[Document]:
    problems = Problems()
    num_blank = 0
    for line, (text,) in read_rows(path, {"text_column": settings.text_column}, problems):
        if problem := text_problem(text):
            problems.add(f"{path}, line {line}: {problem}.")
        elif not text.strip():
            num_blank += 1
        elif not problems.found:
            yield Document(text, str(path), line)
    if num_blank:
        log_once(f"{path}: skipped {counted(num_blank, 'row')} with a blank text.")


def _text_documents(lines: Iterator[str], source: str, settings: ReadSettings, logged: set[str]) -> Iterator[Document]:
    unit = settings.documents
    if unit == "auto":
        unit, lines, share = _choose_unit(lines)
        if unit not in logged:
            logged.add(unit)
            log_once(
                f"{source}: each {unit} is one document, because {share:.0%} of the lines are blank (paragraphs are "
                f"documents from {PARAGRAPH_SHARE:.0%} on). Change it with --documents."
            )
    if unit == "file":
        text = "\n".join(lines)
        return iter([Document(text, source, 1)] if text.strip() else [])
    if unit == "paragraph":
        return _paragraphs(lines, source)
    return (Document(text, source, line) for line, text in enumerate(lines, start=1) if text.strip())


def _choose_unit(lines: Iterator[str]) -> tuple[Literal["line", "paragraph"], Iterator[str], float]:
    """The unit, an iterator over all lines, and the share of blank lines, without those at the start and the end."""
    peeked: list[str] = []
    size = 0
    for text in lines:
        peeked.append(text)
        size += len(text) + 1
        if size >= PEEK:
            break
    filled = [bool(text.strip()) for text in peeked]
    inner = filled[filled.index(True) : len(filled) - filled[::-1].index(True)] if any(filled) else filled
    share = inner.count(False) / max(len(inner), 1)
    return ("paragraph" if share >= PARAGRAPH_SHARE else "line"), chain(peeked, lines), share


def _paragraphs(lines: Iterable[str], source: str) -> Iterator[Document]:
    paragraph: list[str] = []
    begin = 1
    for line, text in enumerate(lines, start=1):
        if text.strip():
            if not paragraph:
                begin = line
            paragraph.append(text)
        elif paragraph:
            yield Document("\n".join(paragraph), source, begin)
            paragraph = []
    if paragraph:
        yield Document("\n".join(paragraph), source, begin)
