"""Listing and removing the entries of the cache.

Only files that headswap wrote are removed. Other files in the cache folder are kept and reported, since the user may
have chosen a folder with files of their own. cache.py creates and uses the entries.
"""

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headswap.core.errors import InputError, SettingError, listed
from headswap.core.files import read_json
from headswap.core.ownership import OwnFiles, entries, foreign_in, is_unfinished, remove_own
from headswap.data.content_hash import MEMORY_FILE, cache_folder
from headswap.data.documents import REMOTE_FOLDER, STDIN_FILE
from headswap.tokens.store import META_FILE
from headswap.tokens.store import OWN_FILES as STORE
from headswap.tokens.tokenizer import Tokenizer
from headswap.tokens.tokenizer_sample import OWN_FILES as SAMPLE
from headswap.tokens.tokenizer_sample import WORK as SAMPLE_WORK

Kind = Literal["store", "tokenizer", "stdin", "baselines", "inputs", "remote"]
FOLDERS: dict[str, Kind] = {
    "stores": "store",
    "tokenizers": "tokenizer",
    "stdin": "stdin",
    "baselines": "baselines",
    "inputs": "inputs",
    REMOTE_FOLDER: "remote",
}
KEY = "[0-9a-f]{16}"
NAMES = {
    "stores": KEY,
    "tokenizers": KEY,
    "stdin": r"[0-9a-f]{64}\.txt",
    "baselines": r"[0-9a-f]{32}\.json",
    "inputs": r"[0-9a-f]{32}\.jsonl",
    REMOTE_FOLDER: KEY,
}
BUILDING = ".building-"
MADE_BY_TEMPFILE = rf"{re.escape(BUILDING)}[a-z0-9_]{{8}}"
OWN_FILES = OwnFiles(
    files=(
        re.escape(MEMORY_FILE),
        *(f"stores/{place}/{name}" for place in (KEY, f"{MADE_BY_TEMPFILE}/{KEY}") for name in STORE.files),
        *(rf"tokenizers/{place}/tokenizer\.json" for place in (KEY, f"{MADE_BY_TEMPFILE}/{KEY}")),
        *(f"tokenizers/{MADE_BY_TEMPFILE}/{SAMPLE_WORK}/{name}" for name in SAMPLE.files),
        *(f"stdin/{name}" for name in (NAMES["stdin"], STDIN_FILE)),
        *(f"{kind}/{NAMES[kind]}" for kind in ("baselines", "inputs")),
        f"{REMOTE_FOLDER}/{KEY}/.+",
    )
)
ABANDONED_SECONDS = 3600
"""An unfinished entry that was not changed for this long was left by a killed process."""


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """One entry of the cache."""

    key: str
    kind: Kind
    path: Path
    num_bytes: int
    summary: str

    def as_json(self) -> dict[str, str | int]:
        """The entry for `--json`."""
        return {
            "key": self.key,
            "kind": self.kind,
            "path": str(self.path),
            "num_bytes": self.num_bytes,
            "summary": self.summary,
        }


@dataclass(frozen=True, slots=True)
class Cleared:
    """The result of a removal."""

    num_bytes: int
    """Bytes freed."""
    foreign: tuple[str, ...]
    """Paths in the cache folder that headswap did not write."""
    being_built: tuple[str, ...]
    """Unfinished entries that another process may be building."""


def list_cache(cache_dir: Path | None = None) -> list[CacheEntry]:
    """All entries of the cache by kind, oldest first, without files that headswap did not write."""
    root = cache_dir or cache_folder()
    found = []
    for name, kind in FOLDERS.items():
        if (root / name).is_symlink() or not (root / name).is_dir():
            continue
        paths = [path for path in (root / name).iterdir() if re.fullmatch(NAMES[name], path.name)]
        paths = [path for path in paths if not path.is_symlink()]
        for path in sorted(paths, key=lambda path: (path.stat().st_mtime, path.name)):
            found.append(CacheEntry(path.stem, kind, path, _size(path), summary_of(path, kind)))
    return found


def clear_cache(keys: Sequence[str] | None = None, *, cache_dir: Path | None = None) -> Cleared:
    """Remove the entries with these keys, or everything that headswap wrote into the cache."""
    root = cache_dir or cache_folder()
    listing = list_cache(root)
    known = {entry.key for entry in listing}
    if unknown := [key for key in keys or () if key not in known]:
        verb = "are" if len(unknown) > 1 else "is"
        raise SettingError(f"{listed(unknown)} {verb} not in the cache {root}. List its entries with: headswap cache")
    below = [_name(entry.path, root) for entry in listing if keys is None or entry.key in keys]
    foreign, being_built = foreign_in(root, OWN_FILES), []
    if keys is None:
        unfinished = _unfinished(root)
        being_built = [_name(path, root) for path in unfinished if not _is_abandoned(path)]
        below += [MEMORY_FILE, *(_name(path, root) for path in unfinished if _is_abandoned(path))]
    else:
        foreign = [name for name in foreign if name.startswith(tuple(f"{entry}/" for entry in below))]
    freed = remove_own(root, OWN_FILES, below=below)
    return Cleared(freed, tuple(foreign), tuple(being_built))


def remove_damaged(folder: Path, root: Path) -> None:
    """Remove a damaged entry; if it contains other files it is an error, since a new entry needs the same name."""
    name = _name(folder, root)
    remove_own(root, OWN_FILES, below=[name])
    if folder.is_symlink() or folder.exists():
        raise SettingError(
            f"The cache entry {folder} is damaged and cannot be built again, since it contains files that headswap did "
            "not write. Move the folder away."
        )


def summary_of(path: Path, kind: Kind) -> str:
    """A short description of an entry."""
    files = {
        "stdin": "standard input",
        "baselines": "baselines of one labelled set",
        "inputs": "rows given in Python",
        "remote": "copy of a file at an address",
    }
    if kind in files:
        return files[kind]
    try:
        if kind == "tokenizer":
            tokenizer = Tokenizer.load(path)
            return f"{tokenizer.kind}, V = {tokenizer.vocab_size:,}"
        meta = read_json(path / META_FILE)
        counts = f"{meta['num_documents']:,} documents, {meta['num_tokens']:,} tokens"
        return f"{counts}, {_size(path) / 1e6:,.1f} MB, tokenizer {meta['fingerprint']}"
    except (InputError, KeyError, TypeError):
        return "damaged"


def _unfinished(root: Path) -> list[Path]:
    """Unfinished entries, of running processes or of killed ones."""
    own = [entry for entry in entries(root, OWN_FILES) if entry.is_own]
    return [
        entry.path
        for entry in own
        if (len(entry.place) == 2 and entry.place[1].startswith(BUILDING))
        or (len(entry.place) <= 2 and is_unfinished(entry.place[-1]))
    ]


def _is_abandoned(path: Path) -> bool:
    """Whether an unfinished entry was not changed for `ABANDONED_SECONDS`."""
    changes = [file.lstat().st_mtime for file in (path, *path.rglob("*"))]
    return time.time() - max(changes) > ABANDONED_SECONDS


def _name(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def _size(path: Path) -> int:
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
