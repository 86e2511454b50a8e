"""Files at addresses such as `s3://bucket/reviews/*.jsonl.gz`: they are listed and fetched with fsspec.

A file is copied to a folder of this machine before it is read, since most readers need a file that they can open more
than once. A copy is named by the address, the size and the version of the file, so a file that changed is fetched
again. fsspec finds credentials in the same places as the tools of the store (such as AWS_* variables).
"""

import hashlib
import os
import posixpath
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from headswap.core.errors import InputError, MissingExtraError, SettingError
from headswap.core.files import atomic_file

PATTERN_SIGNS = "*?["
UNKNOWN_SIZE = -1
"""Of a file whose store does not state its size."""


@dataclass(frozen=True)
class RemoteFile:
    """One file at an address."""

    address: str
    size: int
    """In bytes; `UNKNOWN_SIZE` if the store does not state it."""
    version: str
    """Changes when the file changes: an ETag, a checksum or a time, whichever the store has."""

    def has_size(self, copy: Path) -> bool:
        """Whether a copy is as large as the file; true if that is not known."""
        return self.size == UNKNOWN_SIZE or copy.stat().st_size == self.size

    @property
    def key(self) -> str:
        """The name of the folder of its copy."""
        return hashlib.sha256(f"{self.address}|{self.size}|{self.version}".encode()).hexdigest()[:16]


def is_remote(source: str) -> bool:
    """Whether a source is an address."""
    scheme, separator, _ = source.partition("://")
    return bool(separator) and scheme.isalnum()


def list_remote(source: str, extensions: Iterable[str] = ()) -> list[RemoteFile]:
    """The files of an address, sorted: a file, all files that a pattern matches, or those below a folder.

    Of a folder only files with one of the extensions are listed, also compressed ones; hidden files are ignored.
    """
    from headswap.data.open_text import extension_of

    filesystem, path = _filesystem(source)
    try:
        if any(sign in path for sign in PATTERN_SIGNS):
            found = {name: info for name, info in filesystem.glob(path, detail=True).items() if info["type"] == "file"}
        elif filesystem.isfile(path):
            found = {path: filesystem.info(path)}
        else:
            known = frozenset(extensions)
            found = {
                name: info
                for name, info in filesystem.find(path, detail=True).items()
                if extension_of(Path(name)) in known
                and not any(part.startswith(".") for part in posixpath.relpath(name, path).split("/"))
            }
    except Exception as problem:  # each store has errors of its own
        raise _unreadable(source, problem) from None
    if not found:
        raise InputError(f"There is no file at {source}. Check the address, and that you may read it.")
    addresses = {filesystem.unstrip_protocol(name): info for name, info in found.items()}
    return [RemoteFile(name, _size(addresses[name]), _version(addresses[name])) for name in sorted(addresses)]


def fetch(file: RemoteFile, folder: Path) -> Path:
    """The copy of a file below `folder`; it is fetched unless it is there."""
    target = folder / file.key / posixpath.basename(file.address)
    if target.is_file() and file.has_size(target):
        return target
    filesystem, path = _filesystem(file.address)
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with atomic_file(target) as temporary:
            filesystem.get_file(path, os.fspath(temporary))
            if not file.has_size(temporary):
                raise InputError(f"{file.address} changed while it was fetched. Run the command again.")
    except InputError:
        raise
    except Exception as problem:
        raise _unreadable(file.address, problem) from None
    return target


def _filesystem(source: str) -> tuple[Any, str]:
    if "@" in urlsplit(source).netloc:
        raise SettingError(
            f"An address ({urlsplit(source).scheme}://...) has a user name or a password, which would be written into "
            "results. Use the environment variables or the configuration file of the store."
        )
    try:
        import fsspec
    except ModuleNotFoundError:
        raise MissingExtraError(f"Reading {source}", extra="remote", package="fsspec") from None
    try:
        return fsspec.core.url_to_fs(source)
    except ImportError:
        raise MissingExtraError(f"Reading {source}", extra="remote", package="s3fs") from None
    except ValueError as problem:
        raise SettingError(f"{source} cannot be read: {problem}.") from None


def _size(info: dict[str, Any]) -> int:
    size = info.get("size")
    return UNKNOWN_SIZE if size is None else int(size)


def _version(info: dict[str, Any]) -> str:
    names = ("ETag", "etag", "md5Hash", "md5", "LastModified", "mtime", "created")
    return next((str(info[name]) for name in names if info.get(name)), "")


def _unreadable(source: str, problem: Exception) -> InputError:
    reason = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
    return InputError(f"{source} cannot be read ({reason}). Check the address and your access to it.")
