"""Which files of a folder headswap wrote, and which are foreign.

A `Layout` says what headswap writes into a folder of one kind. Every verb that replaces or clears a folder asks here
first: foreign files are named, and never removed. The names of files that are still being written are made here too,
so that what a killed process leaves is recognised as ours.
"""

import os
import re
import secrets
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from headswap.core.errors import SettingError, listed

TEMPORARY, ASIDE = ".tmp-", ".old-"
UNFINISHED = re.compile(r"(?:\.(?:tmp|old)-\d+-[0-9a-f]{8}-)+")


def unique(path: Path, prefix: str = TEMPORARY) -> Path:
    """A name beside `path` that no other process has: prefix, process, eight random digits, name."""
    return path.with_name(f"{prefix}{os.getpid()}-{secrets.token_hex(4)}-{path.name}")


def is_unfinished(name: str, prefix: str = TEMPORARY) -> bool:
    """Whether `unique` made this file name."""
    return name.startswith(prefix) and UNFINISHED.match(name) is not None


def finished_name(name: str) -> str:
    """The name that a file has when it is written."""
    made = UNFINISHED.match(name)
    return name[made.end() :] if made else name


@dataclass(frozen=True)
class Layout:
    """What headswap writes into a folder of one kind."""

    files: tuple[str, ...]
    """Relative paths; each name between two slashes is a regular expression."""
    links: tuple[str, ...] = ()
    """The same for symbolic links. All others are foreign."""
    is_ours: Callable[[Path], bool] = lambda folder: True
    """Whether the folder shows that headswap wrote it; if not, all in it is foreign."""

    @cached_property
    def _names(self) -> tuple[list[list[str]], list[list[str]]]:
        return [path.split("/") for path in self.files], [path.split("/") for path in self.links]

    def has(self, entry: os.DirEntry[str], place: tuple[str, ...]) -> bool:
        """Whether headswap writes such an entry at `place`, the names below the folder."""
        files, links = self._names
        names = [finished_name(name) for name in place]
        if entry.is_symlink():
            return any(len(path) == len(names) and _fits(path, names) for path in links)
        if entry.is_dir(follow_symlinks=False):
            return any(len(path) > len(names) and _fits(path, names) for path in (*files, *links))
        is_plain = entry.is_file(follow_symlinks=False)
        return is_plain and any(len(path) == len(names) and _fits(path, names) for path in files)


def _fits(path: list[str], names: list[str]) -> bool:
    return all(re.fullmatch(pattern, name) for pattern, name in zip(path, names, strict=False))


@dataclass(frozen=True)
class Entry:
    """A file, folder or link below a folder."""

    path: Path
    place: tuple[str, ...]
    is_own: bool
    is_folder: bool

    @property
    def name(self) -> str:
        """The path below the folder."""
        return "/".join(self.place)


def entries(folder: Path, layout: Layout, place: tuple[str, ...] = ()) -> Iterator[Entry]:
    """All that is in a folder, contents before their folder; foreign folders and links are not entered."""
    try:
        with os.scandir(folder) as found:
            inside = sorted(found, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):  # removed by another process in the meantime
        return
    for entry in inside:
        here = (*place, entry.name)
        is_own, is_folder = layout.has(entry, here), entry.is_dir(follow_symlinks=False)
        if is_own and is_folder:
            yield from entries(folder / entry.name, layout, here)
        yield Entry(folder / entry.name, here, is_own, is_folder)


def foreign_in(folder: Path, layout: Layout) -> list[str]:
    """What headswap did not write, as paths below the folder."""
    every = list(entries(folder, layout))
    if every and not layout.is_ours(folder):
        return [entry.name for entry in every if len(entry.place) == 1]
    return [entry.name for entry in every if not entry.is_own]


def check_replaceable(folder: Path, layout: Layout) -> None:
    """Refuse to replace a folder that holds foreign files; they are named."""
    if foreign := foreign_in(folder, layout):
        it = "it" if len(foreign) == 1 else "them"
        raise SettingError(
            f"This would remove {listed(foreign)} from {folder}, which headswap did not write there. "
            f"Move {it} away first, or choose another folder."
        )


def remove_own(folder: Path, layout: Layout, *, below: Collection[str] | None = None) -> int:
    """Remove what headswap wrote (of the entries `below` alone, where given); returns the bytes that were freed."""
    freed = 0
    chosen = None if below is None else [tuple(name.split("/")) for name in below]
    for entry in list(entries(folder, layout)):
        if not entry.is_own or not (chosen is None or any(entry.place[: len(name)] == name for name in chosen)):
            continue
        if entry.is_folder:
            with suppress(OSError):  # it holds foreign files
                entry.path.rmdir()
        else:
            with suppress(FileNotFoundError):  # another process removed it
                size = entry.path.lstat().st_size
                entry.path.unlink()
                freed += size
    return freed


def leftovers(folder: Path, layout: Layout) -> list[Path]:
    """What killed writers left under temporary names, as far as nothing in it is foreign."""
    every = list(entries(folder, layout))
    found = [entry for entry in every if entry.is_own and is_unfinished(entry.place[-1])]
    foreign = [entry.place for entry in every if not entry.is_own]
    return [one.path for one in found if not any(place[: len(one.place)] == one.place for place in foreign)]
