"""Atomic files and folders: complete or absent.

Data is written under a temporary name next to the target, flushed to the disk, and then renamed. A process that is
killed at any moment leaves either the old file or the new one, and at most a `.tmp-` leftover, which the next writer of
the same name removes; on a shared disk, a leftover of another computer only after a week. A folder is replaced only if
headswap wrote everything in it (see ownership.py).
The contents of a folder can be checked later against its manifest (see manifest.py).
"""

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from headswap.core.errors import InputError, absent
from headswap.core.ownership import (
    OwnFiles,
    entries,
    finished_name,
    is_of_dead,
    unique,
)

CHUNK = 1 << 20
MOST_DIGITS = 100
"""Longest integer in a JSON file. Python refuses 4,300 digits; products and logarithms fail earlier."""
LARGEST_JSON = 1 << 28
"""Size limit of a JSON file in bytes; a tokenizer with a million entries has a tenth of it."""


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; it is renamed to `path` at the end, or removed if the body fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_of_dead(path)
    temporary = unique(path)
    try:
        yield temporary
        flush_file(temporary)
        os.replace(temporary, path)
    except OSError as problem:
        if problem.filename is None and problem.strerror:  # of a write, for example to a full disk
            problem.filename = str(path)
        raise
    finally:
        with suppress(OSError):  # on a read-only disk this must not hide the first error
            temporary.unlink(missing_ok=True)
    flush_folder(path.parent)


def remove_of_dead(path: Path, own_files: OwnFiles | None = None) -> None:
    """Remove what killed writers of `path` left next to it: a file, or a folder of only `own_files`."""
    with os.scandir(path.parent) as found:
        beside = [entry for entry in found if finished_name(entry.name) == path.name and is_of_dead(Path(entry))]
    for entry in beside:
        if own_files is None and entry.is_file(follow_symlinks=False):
            Path(entry).unlink(missing_ok=True)
        if own_files is None or not entry.is_dir(follow_symlinks=False):
            continue
        if all(inside.is_own for inside in entries(Path(entry), own_files)):
            remove_folder(Path(entry))


def remove_folder(path: Path) -> None:
    """Remove a folder tree if it exists."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as readable JSON, atomically."""
    with atomic_file(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """Read a JSON file; an invalid file is an `InputError` with its name."""
    try:
        if path.stat().st_size > LARGEST_JSON:
            raise InputError(
                f"{path} is larger than {LARGEST_JSON >> 20} MiB, so headswap did not write it. Restore it from a copy."
            )
        return parse_json(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(absent(path)) from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder, but a JSON file is needed. Restore the file from a copy.") from None
    except ValueError as problem:
        raise InputError(f"{path} is not valid JSON ({problem}). Restore it from a copy, or create it again.") from None


def parse_json(text: str) -> Any:
    """The value of a JSON text. Invalid text, very long numbers and deep nesting are a `ValueError` with the reason."""
    try:
        return json.loads(text, parse_int=_integer)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _integer(digits: str) -> int:
    if len(digits) > MOST_DIGITS:
        raise ValueError(f"it contains a number of {len(digits):,} digits")
    return int(digits)


def has_entry(path: Path, name: str) -> bool:
    """Whether a file contains a JSON object with this key."""
    try:
        content = read_json(path)
    except (InputError, OSError):
        return False
    return isinstance(content, dict) and name in content


def sha256_of_file(path: Path) -> str:
    """The SHA-256 of a file as hexadecimal digits; the file is read in chunks."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()


def flush_file(file: Path) -> None:
    """Flush a file to the disk; its mode becomes that of a new file, since some libraries write files as 0600."""
    with file.open("rb+") as handle:
        os.fsync(handle.fileno())
    mask = os.umask(0o077)  # it can be read only by setting it
    os.umask(mask)
    if stat.S_IMODE(file.stat().st_mode) != 0o666 & ~mask:
        file.chmod(0o666 & ~mask)


def flush_folder(folder: Path) -> None:
    """Flush the directory entries of a folder to the disk."""
    with suppress(OSError):  # Windows cannot open a folder; only the rename is done there
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
