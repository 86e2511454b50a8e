"""Checks of `--out`, made before anything is read, computed or removed.

`--out` must not be an input of the same command, must not be a symbolic link, and must not contain files that headswap
did not write (see ownership.py).
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from headswap.core.errors import SettingError
from headswap.core.ownership import OwnFiles, check_replaceable

EXISTS = "already exists. Choose another name, or replace it with --overwrite."


def check_folder(
    out: Path, own_files: OwnFiles, *, overwrite: bool, reads: Iterable[str | Path], may_be_inside: bool = False
) -> None:
    """Raise if a folder cannot be written or replaced."""
    if out.name in ("", ".."):
        raise SettingError(f"--out {out} is not the name of a folder. Give a name.")
    _check_link(out, "folder")
    if out.is_file():
        raise SettingError(f"--out {out} is a file. Give a folder.")
    if out.exists() and not overwrite:
        raise SettingError(f"--out {out} {EXISTS}")
    check_apart(out, reads, may_be_inside=may_be_inside)
    check_replaceable(out, own_files)
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
    """Raise if a file cannot be written or replaced; `is_ours` returns whether headswap wrote an existing file."""
    if out.is_dir():
        raise SettingError(f"--out {out} is a folder. Give a file name, for example {out / example}.")
    _check_link(out, "file")
    if out.exists() and not overwrite:
        raise SettingError(f"--out {out} {EXISTS}")
    for name in reads:
        if (read := _existing(name)) and read.is_file() and _contains(out, read):
            raise SettingError(f"--out {out} is the input {name}. Choose another name.")
    if out.exists() and not (out.is_file() and is_ours(out)):
        raise SettingError(
            f"--overwrite would remove {out}, which headswap did not write: it is not a valid {what}. Move it away."
        )
    check_writable(out)


def check_file_flags(out: Path | None, suffix: str, *, overwrite: bool, written: str) -> None:
    """Raise if the name of an optional file has another ending, or if --overwrite is given without --out."""
    if out is not None and out.suffix != suffix:
        raise SettingError(f"--out {out} must end in {suffix}: {written}.")
    if overwrite and out is None:
        raise SettingError(
            f"--overwrite has no effect without --out. Pass --out FILE{suffix}, or leave --overwrite out."
        )


def check_apart(out: Path, reads: Iterable[str | Path], *, may_be_inside: bool = True) -> None:
    """Raise if the output folder is an input, contains one, or (unless `may_be_inside`) is inside one."""
    for name in reads:
        read = _existing(name)
        if read is None:
            continue
        if _contains(out, read):
            relation = "is" if _contains(read, out) else "contains"
            raise SettingError(f"--out {out} {relation} the input {name}. Choose another folder.")
        if not may_be_inside and _contains(read, out):
            raise SettingError(f"--out {out} is inside the input {name}. Choose another folder.")


def check_writable(out: Path) -> None:
    """Raise if nothing can be created at a path: the nearest folder is not writable, or is a broken link."""
    nearest = next(path for path in (out, *out.absolute().parents) if os.path.lexists(path))
    folder = nearest.parent if nearest == out and nearest.is_file() else nearest
    if not folder.is_dir() or not os.access(folder, os.W_OK) or str(folder.absolute()).startswith("/proc"):
        raise SettingError(f"--out {out} cannot be written to. Choose a folder that can.")


def _check_link(out: Path, what: str) -> None:
    if out.is_symlink():
        raise SettingError(f"--out {out} is a symbolic link to {os.readlink(out)}. Give the {what} itself.")


def _existing(name: str | Path) -> Path | None:
    """The file or folder of this name; None for data sets, installed bases and standard input."""
    path = Path(os.path.expanduser(name))
    return path if path.exists() else None


def _contains(folder: Path, path: Path) -> bool:
    """Whether `path` is `folder` or is inside it; compared by inode, because a folder can have several names."""
    if not folder.exists():
        return False
    real, wanted = path.resolve(), folder.stat()
    return any(place.exists() and os.path.samestat(place.stat(), wanted) for place in (real, *real.parents))
