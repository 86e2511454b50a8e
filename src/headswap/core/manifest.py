"""The manifest: size and SHA-256 of each file of a folder.

It is the last file that is written into a folder before the folder is renamed to its final name. A folder without a
manifest is therefore incomplete. If files differ from the manifest, they were damaged later: by the disk, by an
interrupted copy, or by hand.
"""

from collections.abc import Collection
from pathlib import Path
from typing import Any

from headswap.core.errors import InputError
from headswap.core.files import read_json, sha256_of_file, write_json

MANIFEST = "manifest.json"
FORMAT_VERSION = 1


def write_manifest(folder: Path, *, leave: Collection[str] = ()) -> None:
    """Record size and SHA-256 of the files that are in the folder now, except hidden ones and those in `leave`."""
    every = sorted(file.name for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))
    names = [name for name in every if name != MANIFEST and name not in leave]
    files = {name: {"bytes": (folder / name).stat().st_size, "sha256": sha256_of_file(folder / name)} for name in names}
    write_json(folder / MANIFEST, {"headswap_manifest": FORMAT_VERSION, "files": files})


def manifest_problems(folder: Path, *, contents: bool = True, leave: Collection[str] = ()) -> list[str]:
    """One sentence per difference between a folder and its manifest; without `contents` only sizes are compared.

    The files named in `leave` are not checked.
    """
    if not (folder / MANIFEST).is_file():
        return [f"{folder} has no {MANIFEST}: it was never written completely."]
    try:
        entries = _entries(folder / MANIFEST)
    except InputError as problem:
        return [str(problem)]
    problems = []
    for name, entry in entries.items():
        file = folder / name
        if name in leave:
            continue
        if file.is_symlink():
            problems.append(f"{file} is a link, but a regular file was saved.")
        elif not file.is_file():
            problems.append(f"{file} is missing.")
        elif file.stat().st_size != entry["bytes"]:
            problems.append(f"{file} has {file.stat().st_size:,} bytes, but {entry['bytes']:,} were saved.")
        elif contents and sha256_of_file(file) != entry["sha256"]:
            problems.append(f"{file} is damaged: its SHA-256 differs from the saved one.")
    return problems


def saved_sha256(folder: Path, name: str) -> str | None:
    """The SHA-256 that a file had when its folder was saved; None if there is no manifest, or no entry for the file."""
    if not (folder / MANIFEST).is_file():
        return None
    entry = _entries(folder / MANIFEST).get(name)
    return None if entry is None else entry["sha256"]


def written_names(folder: Path) -> list[str]:
    """The files that headswap wrote into a folder, including the manifest; empty if there is no valid manifest."""
    try:
        return [MANIFEST, *_entries(folder / MANIFEST)]
    except InputError:
        return []


def _entries(file: Path) -> dict[str, Any]:
    content = read_json(file)
    found = content.get("headswap_manifest") if isinstance(content, dict) else None
    entries = content.get("files") if found == FORMAT_VERSION else None
    is_sound = isinstance(entries, dict) and all(
        isinstance(entry, dict)
        and isinstance(entry.get("bytes"), int)
        and isinstance(entry.get("sha256"), str)
        and Path(name).name == name
        for name, entry in entries.items()
    )
    if not is_sound or not isinstance(entries, dict):
        raise InputError(f"{file} is not a manifest of format {FORMAT_VERSION}. Restore it from a copy.")
    return entries
