"""Files at addresses such as `s3://bucket/reviews/*.jsonl.gz`: they are listed and fetched with fsspec.

A file is copied to a folder of this machine before it is read, since most readers need a file that they can open more
than once. A copy is named by the address, the size and the version of the file, so a file that changed is fetched
again; a file without a version is fetched once per process. A file that is no longer that of the listing is an error.
The query of a web address (`?...`) may be a signature: it is not a part of the name of the file and not printed. fsspec
finds credentials in the same places as the tools of the store (such as AWS_* variables).
"""

import hashlib
import os
import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from headswap.core.errors import InputError, MissingExtraError, SettingError
from headswap.core.files import atomic_file
from headswap.core.local_paths import WEB, without_query
from headswap.core.local_paths import shown_address as shown

PATTERN_SIGNS = "*?["
"""In these addresses a question mark begins the query."""
VERSIONS = ("ETag", "etag", "md5Hash", "Content-MD5", "md5", "LastModified", "Last-Modified", "mtime", "created")
"""What stores call the version of a file, the best first."""
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
    def name(self) -> str:
        """The name of the file, without the query of a web address."""
        return file_name(self.address)

    @property
    def key(self) -> str:
        """The name of the folder of its copy."""
        return hashlib.sha256(f"{self.address}|{self.size}|{self.version}".encode()).hexdigest()[:16]


def is_remote(source: str) -> bool:
    """Whether a source is an address."""
    scheme, separator, _ = source.partition("://")
    return bool(separator) and scheme.isalnum()


def file_name(address: str) -> str:
    """The name of the file at an address."""
    bare = without_query(address)
    name = posixpath.basename(bare)
    return unquote(name) if bare.lower().startswith(WEB) else name


def list_remote(source: str, extensions: Iterable[str] = ()) -> list[RemoteFile]:
    """The files of an address, sorted: a file, all files that a pattern matches, or those below a folder.

    Of a folder only files with one of the extensions are listed, also compressed ones; hidden files are ignored.
    """
    from headswap.data.open_text import extension_of, log_once

    if shown(source) != source:
        log_once(
            f"{shown(source)}: what follows the question mark is written into recipes. If it is a signature, remove it "
            "before you share them."
        )
    filesystem, path = _filesystem(source)
    try:
        if any(sign in without_query(path) for sign in PATTERN_SIGNS):
            found = {name: info for name, info in filesystem.glob(path, detail=True).items() if info["type"] == "file"}
        elif filesystem.isfile(path):
            found = {path: filesystem.info(path)}
        else:
            known = frozenset(extensions)
            found = {
                name: info
                for name, info in filesystem.find(path, detail=True).items()
                if extension_of(Path(file_name(name))) in known
                and not any(part.startswith(".") for part in posixpath.relpath(name, path).split("/"))
            }
    except Exception as problem:  # each store has errors of its own
        raise _unreadable(source, problem) from None
    if not found:
        raise InputError(f"There is no file at {shown(source)}. Check the address, and that you may read it.")
    addresses = {filesystem.unstrip_protocol(name): info for name, info in found.items()}
    return [RemoteFile(name, _size(addresses[name]), _versions(addresses[name])[0]) for name in sorted(addresses)]


def fetch(file: RemoteFile, folder: Path) -> Path:
    """The copy of a file below `folder`; it is fetched unless it is there."""
    target = folder / file.key / file.name
    is_current = bool(file.version) or target in _FETCHED
    if is_current and target.is_file() and file.has_size(target):
        return target
    filesystem, path = _filesystem(file.address)
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        with atomic_file(target) as temporary:
            filesystem.get_file(path, os.fspath(temporary))
            if not file.has_size(temporary) or not _is_listed(file, filesystem, path):
                raise InputError(f"{shown(file.address)} changed while it was fetched. Run the command again.")
    except InputError:
        raise
    except Exception as problem:
        raise _unreadable(file.address, problem) from None
    _FETCHED.add(target)
    return target


_FETCHED: set[Path] = set()
"""The copies that this process fetched."""


def _is_listed(file: RemoteFile, filesystem: Any, path: str) -> bool:
    """Whether a file still has the version of the listing; true if the store has none."""
    if not file.version:
        return True
    filesystem.invalidate_cache()
    return file.version in _versions(filesystem.info(path))


def _filesystem(source: str) -> tuple[Any, str]:
    if "@" in urlsplit(source).netloc:
        raise SettingError(
            f"An address ({urlsplit(source).scheme}://...) has a user name or a password, which would be written into "
            "results. Use the environment variables or the configuration file of the store."
        )
    try:
        import fsspec
    except ModuleNotFoundError:
        raise MissingExtraError(f"Reading {shown(source)}", extra="remote", package="fsspec") from None
    try:
        return fsspec.core.url_to_fs(source)
    except ImportError:
        raise MissingExtraError(f"Reading {shown(source)}", extra="remote", package="s3fs") from None
    except ValueError as problem:
        raise SettingError(f"{shown(source)} cannot be read: {problem}.") from None


def _size(info: dict[str, Any]) -> int:
    size = info.get("size")
    return UNKNOWN_SIZE if size is None else int(size)


def _versions(info: dict[str, Any]) -> list[str]:
    """All versions that a store states, the best first; a listing may have fewer than the entry of a file."""
    found = [info[name] for name in VERSIONS if info.get(name)]
    return [str(value.timestamp() if isinstance(value, datetime) else value) for value in found] or [""]


def _unreadable(source: str, problem: Exception) -> InputError:
    reason = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
    reason = re.sub(r"(https?://[^\s?#'\"]*)[?#][^\s'\")]*", r"\1?...", reason, flags=re.IGNORECASE)
    return InputError(f"{shown(source)} cannot be read ({reason}). Check the address and your access to it.")
