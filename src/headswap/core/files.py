"""Files that are whole or not there.

A writer works under a temporary name beside the target; the data is flushed to the disk and then renamed. A process
killed at any moment leaves either the old file or the new one, and at most a `.tmp-` leftover, which is removed from a
run folder when its run resumes. A folder is replaced only if headswap wrote all that is in it: see ownership.py. What
was written can be checked later against a manifest: see manifest.py.
"""

import ctypes
import errno
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from headswap.core.errors import InputError, SettingError, absent
from headswap.core.ownership import ASIDE, Layout, check_replaceable, finished_name, foreign_in, is_unfinished, unique

CHUNK = 1 << 20
AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of renameat2(2), Linux
LARGEST_JSON = 1 << 28
"""Bytes of the largest JSON file that is read: a tokenizer of a million entries has a tenth of it."""


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; it becomes `path` at the end, or vanishes if the body fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = unique(path)
    try:
        yield temporary
        _flush(temporary)
        os.replace(temporary, path)
    finally:
        with suppress(OSError):  # a read-only disk must not hide what went wrong
            temporary.unlink(missing_ok=True)
    flush_folder(path.parent)


@contextmanager
def atomic_folder(path: Path, layout: Layout) -> Iterator[Path]:
    """Yield a temporary folder to fill; it becomes `path` at the end and replaces what headswap wrote there.

    A `path` that is a link or holds files that are not of the `layout` is refused, before the body and after it.
    """
    _check(path, layout)
    path.parent.mkdir(parents=True, exist_ok=True)
    restore_folder(path, layout)
    temporary = unique(path)
    temporary.mkdir()
    try:
        yield temporary
        for place, _, names in os.walk(temporary, topdown=False):
            for name in names:
                _flush(Path(place) / name)
            flush_folder(Path(place))
        _check(path, layout)
        _put_in_place(temporary, path)
        flush_folder(path.parent)
    finally:
        with suppress(OSError):
            remove_folder(temporary)


def _check(path: Path, layout: Layout) -> None:
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        what = "a symbolic link" if path.is_symlink() else "a file"
        raise SettingError(f"{path} is {what}, where a folder is to be written. Choose another name.")
    check_replaceable(path, layout)


def _put_in_place(temporary: Path, path: Path) -> None:
    """Rename a folder over another one: in one stroke where the system can, else in two that can be undone."""
    if not path.exists():
        os.replace(temporary, path)
    elif not exchange(temporary, path):  # what was there is now under the temporary name, and is removed as such
        aside = unique(path, ASIDE)
        os.replace(path, aside)
        os.replace(temporary, path)
        remove_folder(aside)


def restore_folder(path: Path, layout: Layout) -> None:
    """Put back what was set aside by a writer that was killed between its two renames; foreign folders are left."""
    for aside in _set_aside(path, layout):
        if path.exists():
            remove_folder(aside)
        else:
            os.replace(aside, path)


def _set_aside(path: Path, layout: Layout) -> list[Path]:
    """Folders that `_put_in_place` set aside and in which nothing is foreign, the newest first."""
    beside = path.parent.iterdir() if path.parent.is_dir() else ()
    ours = [
        entry
        for entry in beside
        if is_unfinished(entry.name, ASIDE)
        and finished_name(entry.name) == path.name
        and entry.is_dir()
        and not entry.is_symlink()
        and not foreign_in(entry, layout)
    ]
    return sorted(ours, key=lambda entry: entry.stat().st_mtime_ns, reverse=True)


def remove_leftovers(path: Path, layout: Layout) -> None:
    """Remove the temporary folders that killed writers of `path` left beside it; call it under the lock of `path`."""
    beside = path.parent.iterdir() if path.parent.is_dir() else ()
    for entry in list(beside):
        is_ours = is_unfinished(entry.name) and finished_name(entry.name) == path.name and not entry.is_symlink()
        if is_ours and entry.is_dir() and not foreign_in(entry, layout):
            remove_folder(entry)


def exchange(one: Path, other: Path) -> bool:
    """Swap two names in one atomic stroke; False where the system or the file system cannot."""
    function = _renameat2()
    if function is None:
        return False
    if function(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0:
        return True
    problem = ctypes.get_errno()
    if problem in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP, errno.EPERM):
        return False
    raise OSError(problem, os.strerror(problem), str(other))


@cache
def _renameat2() -> Any:
    try:
        return ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError, TypeError):  # not Linux, or an old C library
        return None


def remove_folder(path: Path) -> None:
    """Remove a folder tree if it is there."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def discard_folder(path: Path) -> None:
    """Remove a folder tree so that a process killed on the way leaves no half of it under its name."""
    if path.is_dir() and not path.is_symlink():
        doomed = unique(path)
        os.replace(path, doomed)
        path = doomed
    remove_folder(path)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as readable JSON, atomically."""
    with atomic_file(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """Read a JSON file; a broken one is an error that names it."""
    try:
        if path.stat().st_size > LARGEST_JSON:
            raise InputError(f"{path} is larger than {LARGEST_JSON >> 20} MiB, so it is no JSON file of ours.")
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(absent(path)) from None
    except IsADirectoryError:
        raise InputError(f"{path} is a folder where a JSON file is needed. Restore the file from a copy.") from None
    except (UnicodeDecodeError, json.JSONDecodeError) as problem:
        raise InputError(f"{path} is not valid JSON ({problem}). Restore it from a copy, or make it again.") from None
    except RecursionError:
        raise InputError(f"{path} is not valid JSON (nested too deeply). Restore it from a copy.") from None


def has_entry(path: Path, name: str) -> bool:
    """Whether a file is a JSON object with an entry of this name."""
    try:
        content = read_json(path)
    except (InputError, OSError):
        return False
    return isinstance(content, dict) and name in content


def sha256_of_file(path: Path) -> str:
    """The hexadecimal SHA-256 of a file's bytes, read in pieces."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(CHUNK):
            digest.update(piece)
    return digest.hexdigest()


def _flush(file: Path) -> None:
    with file.open("rb+") as handle:
        os.fsync(handle.fileno())


def flush_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    with suppress(OSError):  # Windows cannot open a folder; there the rename alone must do
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
