"""Where a verb may write: what is refused before anything is read, computed or removed.

`--out` must not be what is read, a symbolic link, or hold files that headswap did not write (see ownership.py).
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from headswap.core.errors import SettingError
from headswap.core.ownership import Layout, check_replaceable

EXISTS = "exists already. Choose another name, or replace it with --overwrite."


def check_folder(
    out: Path, layout: Layout, *, overwrite: bool, reads: Iterable[str | Path], may_be_inside: bool = False
) -> None:
    """Refuse a folder that cannot be written or replaced."""
    if out.name in ("", ".."):
        raise SettingError(f"--out {out} does not name a folder. Give its name.")
    _check_link(out, "folder")
    if out.is_file():
        raise SettingError(f"--out {out} is a file. Give a folder.")
    if out.exists() and not overwrite:
        raise SettingError(f"--out {out} {EXISTS}")
    check_apart(out, reads, may_be_inside=may_be_inside)
    check_replaceable(out, layout)
    check_writable(out)


def check_file(
    out: Path,
    *,
    what: str,
    is_ours: Callable[[Path], bool],
    overwrite: bool,
    reads: Iterable[str | Path],
    example: str,
) -> None:
    """Refuse a file that cannot be written or replaced; `is_ours` says of an existing one whether headswap wrote it."""
    if out.is_dir():
        raise SettingError(f"--out {out} is a folder. Give a file name, for example {out / example}.")
    _check_link(out, "file")
    if out.exists() and not overwrite:
        raise SettingError(f"--out {out} {EXISTS}")
    for name in reads:
        if (read := _existing(name)) and read.is_file() and _holds(out, read):
            raise SettingError(f"--out {out} is {name}, which is read. Choose another name.")
    if out.exists() and not (out.is_file() and is_ours(out)):
        raise SettingError(
            f"--overwrite would remove {out}, which headswap did not write: it is no {what}. Move it away first."
        )
    check_writable(out)


def check_apart(out: Path, reads: Iterable[str | Path], *, may_be_inside: bool = True) -> None:
    """Refuse an output folder that is or holds something that is read, however both are spelled, or is inside of it."""
    for name in reads:
        read = _existing(name)
        if read is None:
            continue
        if _holds(out, read):
            relation = "is" if _holds(read, out) else "holds"
            raise SettingError(f"--out {out} {relation} {name}, which is read. Choose another folder.")
        if not may_be_inside and _holds(read, out):
            raise SettingError(f"--out {out} is inside {name}, which is read. Choose another folder.")


def check_writable(out: Path) -> None:
    """Refuse a path where nothing can be made: the nearest folder takes no new files, or is a link to nothing."""
    nearest = next(path for path in (out, *out.absolute().parents) if os.path.lexists(path))
    folder = nearest.parent if nearest == out and nearest.is_file() else nearest
    if not folder.is_dir() or not os.access(folder, os.W_OK) or str(folder.absolute()).startswith("/proc"):
        raise SettingError(f"--out {out} cannot be written to. Choose a folder that can.")


def _check_link(out: Path, what: str) -> None:
    if out.is_symlink():
        raise SettingError(f"--out {out} is a symbolic link to {os.readlink(out)}. Give the {what} itself.")


def _existing(name: str | Path) -> Path | None:
    """The file or folder of a name; data sets, installed bases and standard input have none."""
    path = Path(name).expanduser()
    return path if path.exists() else None


def _holds(folder: Path, path: Path) -> bool:
    """Whether `path` is `folder` or below it: compared by inode, since one folder can have several spellings."""
    if not folder.exists():
        return False
    real, wanted = path.resolve(), folder.stat()
    return any(place.exists() and os.path.samestat(place.stat(), wanted) for place in (real, *real.parents))
