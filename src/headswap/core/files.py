"""Files that are whole or not there.

A writer works under a temporary name beside the target; the data is flushed to the disk and then renamed. A process
killed at any moment leaves either the old file or the new one, and at most a `.tmp-` leftover, which a run folder loses
when its run goes on.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from headswap.core.errors import InputError, absent

CHUNK = 1 << 20


@contextmanager
def atomic_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; it becomes `path` at the end, or vanishes if the body fails."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".tmp-{os.getpid()}-{path.name}")
    try:
        yield temporary
        _flush(temporary)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    _flush_folder(path.parent)


@contextmanager
def atomic_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder to fill; it becomes `path` at the end and replaces what was there."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".tmp-{os.getpid()}-{path.name}")
    remove_folder(temporary)
    temporary.mkdir()
    try:
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                _flush(file)
        replaced = path.with_name(f".tmp-{os.getpid()}-old-{path.name}")
        if path.exists():
            os.replace(path, replaced)
        os.replace(temporary, path)
        remove_folder(replaced)
    finally:
        remove_folder(temporary)
    _flush_folder(path.parent)


def remove_folder(path: Path) -> None:
    """Remove a folder tree if it is there."""
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def write_json(path: Path, value: Any) -> None:
    """Write `value` as readable JSON, atomically."""
    with atomic_file(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def read_json(path: Path) -> Any:
    """Read a JSON file; a broken one is an error that names it."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(absent(path)) from None
    except (UnicodeDecodeError, json.JSONDecodeError) as problem:
        raise InputError(f"{path} is not valid JSON ({problem}).") from None


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


def _flush_folder(folder: Path) -> None:
    with suppress(OSError):  # Windows cannot open a folder; there the rename alone must do
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
