"""Content hashes of a corpus, used in the keys of the cache.

The hash of a file is remembered in the cache folder under its path, inode, size, mtime and ctime. The mtime alone is
not enough: `cp -p`, `rsync -t` and `tar -x` set it to an old date, and other labels are often of the same length.
Labelled files are few and small, so they are always hashed. The cache itself is in
tokens/cache.py.
"""

import hashlib
import json
import os
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from headswap.core.errors import InputError, SettingError
from headswap.core.files import read_json, sha256_of_file, write_json
from headswap.data.documents import STDIN, find_files, spool_stdin
from headswap.data.named_sets import content_hash, is_named
from headswap.data.open_text import compression_of, extension_of

MEMORY_FILE = "hashes.json"
MOST_HASHES = 10_000
FRESH_SECONDS = 2
"""A file changed so recently could change again within one tick of its time stamps: its hash is not kept."""


def cache_folder() -> Path:
    """$HEADSWAP_CACHE, or headswap/ in $XDG_CACHE_HOME, or in ~/.cache."""
    if own := os.environ.get("HEADSWAP_CACHE"):
        return Path(own).expanduser()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache") / "headswap"


def spooled(sources: Sequence[str], *, cache_dir: Path | None = None) -> list[str]:
    """The sources with standard input (`-`) replaced by a file that can be read more than once."""
    if STDIN not in sources:
        return list(sources)
    root = cache_dir or cache_folder()
    with writable(root):
        try:
            path = str(spool_stdin(root / "stdin"))
        except InputError:
            for empty in (root / "stdin", root):  # what failed leaves no trace
                with suppress(OSError):
                    empty.rmdir()
            raise
    return [path if source == STDIN else source for source in sources]


def corpus_hash(sources: Sequence[str], *, labelled: Collection[str] = (), cache_dir: Path | None = None) -> str:
    """What named data sets and files hold, in the order in which they are read, whatever the files are called.

    The hashes of sources that are also in `labelled` are not remembered.
    """
    named = {source for source in sources if is_named(source)}
    files = find_files([source for source in sources if source not in named])  # all that is missing, said at once
    always = find_files([source for source in sources if source in labelled and source not in named])
    hashes = file_hashes(files, always=always, cache_dir=cache_dir)
    parts: dict[str | Path, list[str | None]] = {}
    for source in sources:
        if source in named:
            parts[source] = ["named", source, content_hash(source)]
            continue
        for file in find_files([source]):
            if file.resolve() not in parts:  # a file is read once, however often it is named
                parts[file.resolve()] = ["file", extension_of(file), compression_of(file), hashes[file]]
    return hashlib.sha256(json.dumps(list(parts.values())).encode()).hexdigest()


def file_hashes(
    paths: Iterable[Path], *, always: Collection[Path] = (), cache_dir: Path | None = None
) -> dict[Path, str]:
    """The SHA-256 of each file, remembered until it changes or is replaced; those in `always` are not remembered."""
    memory = (cache_dir or cache_folder()) / MEMORY_FILE
    remembered = _read_memory(memory)
    result: dict[Path, str] = {}
    news: dict[str, str] = {}
    for path in paths:
        if path in always:
            result[path] = sha256_of_file(path)
            continue
        state = path.stat()
        tag = f"{path.resolve()}|{state.st_ino}|{state.st_size}|{state.st_mtime_ns}|{state.st_ctime_ns}"
        result[path] = remembered.get(tag) or sha256_of_file(path)
        if tag not in remembered and time.time() - max(state.st_mtime, state.st_ctime) > FRESH_SECONDS:
            news[tag] = result[path]
    if news:
        with writable(memory.parent):
            write_json(memory, dict(list((remembered | news).items())[-MOST_HASHES:]))
    return result


@contextmanager
def writable(root: Path) -> Iterator[None]:
    """Turn a cache folder that cannot be written into a sentence."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        yield
    except (PermissionError, FileExistsError, NotADirectoryError) as problem:
        raise SettingError(
            f"The cache folder {root} cannot be written ({problem.strerror}). "
            "Set the environment variable HEADSWAP_CACHE to a folder that can."
        ) from None


def _read_memory(file: Path) -> dict[str, str]:
    """The remembered hashes; a broken memory is only slower, so it begins anew."""
    try:
        content: Any = read_json(file)
    except (InputError, OSError):
        return {}
    return content if isinstance(content, dict) and all(isinstance(value, str) for value in content.values()) else {}
