"""Folders that are complete or absent, and that replace another folder in one step where the system can.

A folder is written under a temporary name next to the target and then renamed (see files.py). It replaces another one
only if headswap wrote everything in it (see ownership.py).
"""

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from headswap.core.errors import SettingError
from headswap.core.files import flush_file, flush_folder, remove_folder, remove_of_dead
from headswap.core.ownership import ASIDE, OwnFiles, check_replaceable, finished_name, foreign_in, is_unfinished, unique

AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of renameat2(2), Linux


@contextmanager
def atomic_folder(path: Path, own_files: OwnFiles) -> Iterator[Path]:
    """Yield a temporary folder to write to; at the end it is renamed to `path` and replaces what headswap wrote there.

    If `path` is a link or contains files that are not `own_files`, this is an error. It is checked before and after the
    body.
    """
    _check(path, own_files)
    path.parent.mkdir(parents=True, exist_ok=True)
    restore_folder(path, own_files)
    remove_of_dead(path, own_files)
    temporary = unique(path)
    temporary.mkdir()
    try:
        yield temporary
        for place, _, names in os.walk(temporary, topdown=False):
            for name in names:
                flush_file(Path(place) / name)
            flush_folder(Path(place))
        _check(path, own_files)
        _put_in_place(temporary, path)
        flush_folder(path.parent)
    finally:
        with suppress(OSError):
            remove_folder(temporary)


def _check(path: Path, own_files: OwnFiles) -> None:
    if path.is_symlink() or (path.exists() and not path.is_dir()):
        what = "a symbolic link" if path.is_symlink() else "a file"
        raise SettingError(f"{path} is {what}, but a folder has to be written there. Choose another name.")
    check_replaceable(path, own_files)


def _put_in_place(temporary: Path, path: Path) -> None:
    """Rename a folder over another one: atomically if the system can, otherwise by two renames that can be undone."""
    if not path.exists():
        os.replace(temporary, path)
    elif not exchange(temporary, path):  # the old folder now has the temporary name and is removed with it
        aside = unique(path, ASIDE)
        os.replace(path, aside)
        os.replace(temporary, path)
        remove_folder(aside)


def restore_folder(path: Path, own_files: OwnFiles) -> None:
    """Restore a folder whose writer was killed between its two renames; foreign folders are not touched."""
    for aside in _set_aside(path, own_files):
        if path.exists():
            remove_folder(aside)
        else:
            os.replace(aside, path)


def _set_aside(path: Path, own_files: OwnFiles) -> list[Path]:
    """Folders that `_put_in_place` renamed and that contain no foreign files, newest first."""
    beside = path.parent.iterdir() if path.parent.is_dir() else ()
    ours = [
        entry
        for entry in beside
        if is_unfinished(entry.name, ASIDE)
        and finished_name(entry.name) == path.name
        and entry.is_dir()
        and not entry.is_symlink()
        and not foreign_in(entry, own_files)
    ]
    return sorted(ours, key=lambda entry: entry.stat().st_mtime_ns, reverse=True)


def remove_leftovers(path: Path, own_files: OwnFiles) -> None:
    """Remove the temporary folders that killed writers of `path` left next to it; call it under the lock of `path`."""
    beside = path.parent.iterdir() if path.parent.is_dir() else ()
    for entry in list(beside):
        is_ours = is_unfinished(entry.name) and finished_name(entry.name) == path.name and not entry.is_symlink()
        if is_ours and entry.is_dir() and not foreign_in(entry, own_files):
            remove_folder(entry)


def exchange(one: Path, other: Path) -> bool:
    """Swap two names atomically; False if the operating system or the file system cannot."""
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


def discard_folder(path: Path) -> None:
    """Remove a folder tree; a process that is killed meanwhile leaves no partial folder under its name."""
    if path.is_dir() and not path.is_symlink():
        doomed = unique(path)
        os.replace(path, doomed)
        path = doomed
    remove_folder(path)
