"""Which files of a corpus are in which shard of a token store, how they are read, and how the plan is recorded.

`plan.json` stays in the finished store. It has no paths and no addresses: a file is recorded by its name, its size, its
version and a hash of its folder below the folder that all files share, so the plan is the same after corpus and store
were moved. Where the files are is in `work/sources.json`, which is removed when the store is complete.
"""

import hashlib
import json
import os
import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headswap.core.errors import InputError
from headswap.core.files import remove_folder
from headswap.core.local_paths import without_query
from headswap.data.config import ReadSettings
from headswap.data.documents import KNOWN_EXTENSIONS, find_files, read_file_documents
from headswap.data.records import Document
from headswap.data.remote_files import UNKNOWN_SIZE, RemoteFile, fetch, file_name, is_remote, list_remote


@dataclass(frozen=True)
class SourceFile:
    """One file of the corpus, on a disk or at an address."""

    place: str
    size: int
    version: str
    """Changes when the file changes."""

    @property
    def is_remote(self) -> bool:
        """Whether the place is an address."""
        return is_remote(self.place)

    @property
    def name(self) -> str:
        """Its name without its folder."""
        return file_name(self.place) if self.is_remote else Path(self.place).name

    def known_size(self, default: int) -> int:
        """Its size, or the default if its store does not state it."""
        return default if self.size == UNKNOWN_SIZE else self.size


def list_sources(sources: Sequence[str]) -> list[SourceFile]:
    """The files of a corpus in order, each once. A link keeps its own name, which states the format of the file."""
    found: dict[str, SourceFile] = {}
    for source in sources:
        if is_remote(source):
            for file in list_remote(source, KNOWN_EXTENSIONS):
                found.setdefault(file.address, SourceFile(file.address, file.size, file.version))
            continue
        for path in find_files([source]):
            state = path.stat()
            place = os.path.abspath(path)
            found.setdefault(str(path.resolve()), SourceFile(place, state.st_size, str(state.st_mtime_ns)))
    return list(found.values())


def plan_shards(files: Sequence[SourceFile], shard_bytes: int) -> list[list[SourceFile]]:
    """Consecutive files, divided where a shard would become larger; a larger file is a shard alone.

    So is a file of unknown size.
    """
    shards: list[list[SourceFile]] = []
    size = 0
    for file in files:
        own = file.known_size(shard_bytes)
        if not shards or size + own > shard_bytes:
            shards.append([])
            size = 0
        shards[-1].append(file)
        size += own
    return shards


def read_files(
    files: Sequence[SourceFile], settings: ReadSettings, place: Path, *, logged: set[str] | None = None
) -> Iterator[Document]:
    """The documents of files; those at addresses are copied to `place`, one at a time.

    A file that is not the listed one any more is an error: files are read more than once, and must not change.
    `logged` are the messages that are not logged again.
    """
    logged = set() if logged is None else logged
    for file in files:
        if file.is_remote:
            copy = fetch(RemoteFile(file.place, file.size, file.version), place)
            yield from read_file_documents(copy, settings, logged)
            remove_folder(copy.parent)
        else:
            _check_version(file)
            yield from read_file_documents(Path(file.place), settings, logged)
            _check_version(file)


def _check_version(file: SourceFile) -> None:
    state = Path(file.place).stat()
    if (state.st_size, str(state.st_mtime_ns)) != (file.size, file.version):
        raise InputError(
            f"{file.place} changed while the corpus was read. Run the command again; a store that was begun needs "
            "--overwrite."
        )


def recorded(shards: Sequence[Sequence[SourceFile]]) -> list[list[dict[str, Any]]]:
    """The files of the shards without their places."""
    folders = [os.path.dirname(file.place) for files in shards for file in files if not file.is_remote]
    root = os.path.commonpath(folders) if folders else ""
    return [
        [{"name": file.name, "folder": _folder_hash(file, root), "size": file.size, "version": file.version}
         for file in files]
        for files in shards
    ]  # fmt: skip


def _folder_hash(file: SourceFile, root: str) -> str:
    if file.is_remote:
        folder = posixpath.dirname(without_query(file.place))
    else:
        folder = Path(os.path.relpath(os.path.dirname(file.place), root)).as_posix()
    return hashlib.sha256(folder.encode()).hexdigest()[:8]


def is_same_plan(found: dict[str, Any], plan: dict[str, Any]) -> bool:
    """Whether a plan that was read is this one; plans of older versions have the places of the files."""
    try:
        shards = found["shards"]
        if any("place" in file for files in shards for file in files):
            shards = recorded([[SourceFile(**file) for file in files] for files in shards])
    except TypeError:  # it has other fields
        return False
    return {**found, "shards": shards} == json.loads(json.dumps(plan))


def as_json(shards: Sequence[Sequence[SourceFile]]) -> list[list[dict[str, Any]]]:
    """The files of the shards with their places, for the tasks that read them."""
    return [[asdict(file) for file in files] for files in shards]
