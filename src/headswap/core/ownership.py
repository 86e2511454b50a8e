"""Which files of a folder headswap wrote, and which are foreign.

`OwnFiles` lists what headswap writes into one kind of folder. Every command that replaces or clears a folder first
checks it here: foreign files are reported and never removed. The names of temporary files are also defined here, so
that files that a killed process left are recognised.
"""

import hashlib
import os
import re
import secrets
import socket
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

from headswap.core.errors import SettingError, listed

TEMPORARY, ASIDE = ".tmp-", ".old-"
_ONE = r"\.(?:tmp|old)-(\d+)(?:\.([0-9a-f]{8}))?-[0-9a-f]{8}-"
"""The number of the process, the computer (absent in names of older versions), random digits."""
LAST_GIVEN, UNFINISHED = re.compile(_ONE), re.compile(f"(?:{_ONE})+")
ABANDONED_SECONDS = 7 * 24 * 3600
"""A temporary file of another computer is left by a killed process if nothing was written to it for so long."""


def unique(path: Path, prefix: str = TEMPORARY) -> Path:
    """A name next to `path` that no other process uses: prefix, process, computer, eight random digits, name."""
    return path.with_name(f"{prefix}{os.getpid()}.{this_computer()}-{secrets.token_hex(4)}-{path.name}")


@cache
def this_computer() -> str:
    """Eight digits for the space of process numbers: processes with other digits cannot be seen from here.

    Two computers or containers that share a folder have equal process numbers. Their host names differ, or else the
    time at which they were started or the name of their process space (Linux).
    """
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(os.readlink("/proc/self/ns/pid"))
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip())
    return hashlib.sha256("|".join(parts).encode()).hexdigest()[:8]


def is_unfinished(name: str, prefix: str = TEMPORARY) -> bool:
    """Whether this file name was created by `unique`."""
    return name.startswith(prefix) and UNFINISHED.match(name) is not None


def is_of_dead(path: Path) -> bool:
    """Whether `unique` created this name in a process that has ended; for another computer its age decides."""
    made = LAST_GIVEN.match(path.name)
    if made is None or not path.name.startswith(TEMPORARY):
        return False
    number, computer = made.groups()
    if computer != this_computer():
        return _is_abandoned(path)
    if os.name != "posix":  # there os.kill would end the process
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


def _is_abandoned(path: Path) -> bool:
    """Whether nothing was written to a file, or to a folder and what is in it, for a long time."""
    try:
        inside = [Path(place, name) for place, _, names in os.walk(path) for name in ("", *names)]
        newest = max(one.lstat().st_mtime for one in (path, *inside))
    except OSError:  # its process has just renamed it
        return False
    return time.time() - newest > ABANDONED_SECONDS


def finished_name(name: str) -> str:
    """The final name of a file with a temporary name."""
    made = UNFINISHED.match(name)
    return name[made.end() :] if made else name


@dataclass(frozen=True)
class OwnFiles:
    """What headswap writes into one kind of folder."""

    files: tuple[str, ...]
    """Relative paths; each part between slashes is a regular expression."""
    links: tuple[str, ...] = ()
    """Relative paths of symbolic links, as regular expressions. All other links are foreign."""
    is_ours: Callable[[Path], bool] = lambda folder: True
    """Whether headswap wrote the folder; if not, everything in it is foreign."""

    @cached_property
    def _names(self) -> tuple[list[list[str]], list[list[str]]]:
        return [path.split("/") for path in self.files], [path.split("/") for path in self.links]

    def has(self, entry: os.DirEntry[str], place: tuple[str, ...]) -> bool:
        """Whether headswap writes such an entry at `place`, the parts of its path below the folder."""
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


def entries(folder: Path, own_files: OwnFiles, place: tuple[str, ...] = ()) -> Iterator[Entry]:
    """All entries of a folder tree, contents before their folder; foreign folders and links are not entered."""
    try:
        with os.scandir(folder) as found:
            inside = sorted(found, key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):  # removed meanwhile by another process
        return
    for entry in inside:
        here = (*place, entry.name)
        is_own, is_folder = own_files.has(entry, here), entry.is_dir(follow_symlinks=False)
        if is_own and is_folder:
            yield from entries(folder / entry.name, own_files, here)
        yield Entry(folder / entry.name, here, is_own, is_folder)


def foreign_in(folder: Path, own_files: OwnFiles) -> list[str]:
    """The files that headswap did not write, as paths below the folder."""
    every = list(entries(folder, own_files))
    if every and not own_files.is_ours(folder):
        return [entry.name for entry in every if len(entry.place) == 1]
    return [entry.name for entry in every if not entry.is_own]


def check_replaceable(folder: Path, own_files: OwnFiles) -> None:
    """Raise if a folder contains foreign files, with their names."""
    if foreign := foreign_in(folder, own_files):
        it = "it" if len(foreign) == 1 else "them"
        raise SettingError(
            f"This would remove {listed(foreign)} from {folder}, which headswap did not write. "
            f"Move {it} away first, or choose another folder."
        )


def remove_own(folder: Path, own_files: OwnFiles, *, below: Collection[str] | None = None) -> int:
    """Remove the files that headswap wrote (if `below` is given, only below these names); return the bytes freed."""
    freed = 0
    chosen = None if below is None else [tuple(name.split("/")) for name in below]
    for entry in list(entries(folder, own_files)):
        if not entry.is_own or not (chosen is None or any(entry.place[: len(name)] == name for name in chosen)):
            continue
        if entry.is_folder:
            with suppress(OSError):  # it contains foreign files
                entry.path.rmdir()
        else:
            with suppress(FileNotFoundError):  # another process removed it
                size = entry.path.lstat().st_size
                entry.path.unlink()
                freed += size
    return freed


def leftovers(folder: Path, own_files: OwnFiles) -> list[Path]:
    """Temporary files and folders that killed writers left, except folders that contain foreign files."""
    every = list(entries(folder, own_files))
    found = [entry for entry in every if entry.is_own and is_unfinished(entry.place[-1])]
    foreign = [entry.place for entry in every if not entry.is_own]
    return [one.path for one in found if not any(place[: len(one.place)] == one.place for place in foreign)]
