"""The token store: a corpus as ids on disk, memory-mapped.

A folder of flat arrays (`ids`, document `offsets`, `byte_counts`, optional side arrays with one entry per token), a
`store.json` that describes them, and a copy of the tokenizer. Opening a store reads nothing into memory, so it is fast
for a corpus of any size. A store of many shards is a folder of stores, which are read as one (sharded_store.py builds
it). store_writer.py encodes and appends, cache.py finds the store of a corpus, batches/windows.py makes rows.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np

from headswap.core.atomic_folder import atomic_folder
from headswap.core.errors import InputError, did_you_mean, listed, raise_problems
from headswap.core.files import has_entry, read_json, sha256_of_file, write_json
from headswap.core.ownership import OwnFiles
from headswap.data.records import Document
from headswap.tokens.joined_array import JoinedArray
from headswap.tokens.lab_tokenizer import MODEL_FILE
from headswap.tokens.store_writer import OFFSET_TYPE, file_name, id_type, write_arrays
from headswap.tokens.tokenizer import Tokenizer

FORMAT_VERSION = 1
SHARDED_VERSION = 2
"""The format of a folder of shards, each of which is a store of the first format."""
META_FILE = "store.json"
SIDE_ARRAYS = ("word_starts", "sentence_starts")
"""Available side arrays: uint8, 1 where a token begins a word or a sentence."""
PER_DOCUMENT = ("offsets", "byte_counts")
ARRAYS = ("ids", *PER_DOCUMENT)
DTYPES = {"ids": ("<u2", "<u4"), "offsets": (OFFSET_TYPE,), "byte_counts": (OFFSET_TYPE,)} | dict.fromkeys(
    SIDE_ARRAYS, ("|u1",)
)
OWN_FILES = OwnFiles(
    files=tuple(map(re.escape, (META_FILE, "tokenizer.json", MODEL_FILE, *map(file_name, (*ARRAYS, *SIDE_ARRAYS))))),
    is_ours=lambda folder: has_entry(folder / META_FILE, "headswap_store"),
)
PIECE = 1 << 22  # entries that are read at a time
SHARD = r"shard-[0-9]{5,}"
NEEDED_COUNTS = ("vocab_size", "num_documents", "num_tokens", "num_bytes")
NEEDED_META = (*NEEDED_COUNTS, "fingerprint", "arrays")


@dataclass(frozen=True, eq=False)
class TokenStore:
    """Documents as ids, on disk or in memory."""

    ids: np.ndarray
    """All tokens of all documents, end to end, as uint16 or uint32."""
    offsets: np.ndarray
    """Start of each document in `ids`, and the end of the last one: one entry more than documents."""
    byte_counts: np.ndarray
    """UTF-8 bytes of each document's text."""
    fingerprint: str
    """Fingerprint of the tokenizer."""
    sides: Mapping[str, np.ndarray] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)
    folder: Path | None = None

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Memory-map a store that `build_store` wrote. Sizes are checked here, contents by `verify`."""
        meta = _read_meta(folder)
        if "shards" in meta:
            return cls.from_shards(folder, meta)
        try:
            arrays = {name: _map(folder, name, entry) for name, entry in meta["arrays"].items()}
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            raise _damaged(folder, f"{META_FILE} does not describe its arrays ({problem})") from None
        store = cls(
            ids=arrays.pop("ids"),
            offsets=arrays.pop("offsets"),
            byte_counts=arrays.pop("byte_counts"),
            fingerprint=meta["fingerprint"],
            sides=arrays,
            meta=meta,
            folder=folder,
        )
        store._check_sizes()
        return store

    @classmethod
    def from_shards(cls, folder: Path, meta: Mapping[str, Any]) -> Self:
        """The shards as one store; the arrays stay on disk.

        Stores of older versions have no files with the offsets and byte counts of all shards; they are then read into
        memory.
        """
        try:
            if not all(re.fullmatch(SHARD, name) for name in meta["shards"]):
                raise ValueError("a name is not that of a shard")
            types = {name: np.dtype(entry["dtype"]) for name, entry in meta["arrays"].items()}
            has_joined = all((folder / file_name(name)).is_file() for name in PER_DOCUMENT)
            ids: list[np.ndarray] = []
            parts: dict[str, list[np.ndarray]] = {name: [] for name in types.keys() - {"ids"}}
            for shard_name in meta["shards"]:  # one after the other: an open array is a file descriptor
                shard = cls.open(folder / shard_name)
                for name in types.keys() - ARRAYS:
                    parts[name].append(shard.sides[name])
                if not has_joined:
                    parts["offsets"].append(shard.offsets[1:] + sum(map(len, ids)))
                    parts["byte_counts"].append(np.array(shard.byte_counts))
                ids.append(shard.ids)
            sides = {name: JoinedArray(parts[name], types[name]) for name in types.keys() - ARRAYS}
            if has_joined:
                offsets, byte_counts = (_map(folder, name, meta["arrays"][name]) for name in PER_DOCUMENT)
            else:
                offsets = np.concatenate([np.zeros(1, OFFSET_TYPE), *parts["offsets"]])
                byte_counts = np.concatenate([np.zeros(0, OFFSET_TYPE), *parts["byte_counts"]])
        except (AttributeError, KeyError, TypeError, ValueError) as problem:
            raise _damaged(folder, f"{META_FILE} does not describe its shards ({problem})") from None
        store = cls(
            ids=JoinedArray(ids, types["ids"]),  # type: ignore[arg-type]
            offsets=offsets,
            byte_counts=byte_counts,
            fingerprint=meta["fingerprint"],
            sides=sides,  # type: ignore[arg-type]
            meta=meta,
            folder=folder,
        )
        store._check_sizes()
        return store

    @classmethod
    def from_documents(
        cls, documents: Sequence[np.ndarray], *, fingerprint: str, byte_counts: Sequence[int] | None = None
    ) -> Self:
        """A store in memory, from documents given as ids."""
        lengths = [len(ids) for ids in documents]
        largest = max((int(ids.max()) for ids in documents if len(ids)), default=0)
        return cls(
            ids=np.concatenate([np.zeros(0, np.int32), *documents]).astype(id_type(largest + 1)),
            offsets=np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(OFFSET_TYPE),
            byte_counts=np.asarray(byte_counts if byte_counts is not None else [0] * len(documents), dtype=OFFSET_TYPE),
            fingerprint=fingerprint,
        )

    @property
    def num_documents(self) -> int:
        """Number of documents."""
        return len(self.offsets) - 1

    @property
    def num_tokens(self) -> int:
        """Number of tokens of all documents; special tokens are not stored."""
        return len(self.ids)

    @property
    def num_bytes(self) -> int:
        """UTF-8 bytes of all texts."""
        return int(self.byte_counts.sum())

    def document(self, index: int) -> np.ndarray:
        """The ids of one document, as a view."""
        return self.ids[int(self.offsets[index]) : int(self.offsets[index + 1])]

    def side(self, name: str) -> np.ndarray:
        """A side array, with one entry per token."""
        if name not in self.sides:
            raise InputError(
                f"The token store {self.folder or 'in memory'} has no side array '{name}' (it has: "
                f"{listed(self.sides) or 'none'}). Build the store with this side array."
            )
        return self.sides[name]

    def checksum(self, *, side: Sequence[str] = ()) -> str:
        """What identifies the documents beyond their ids: where each begins, its bytes, and these side arrays."""
        recorded = {name: self.meta["arrays"][name]["sha256"] for name in ("offsets", "byte_counts", *sorted(side))}
        return hashlib.sha256(json.dumps(recorded).encode()).hexdigest()

    def texts(self) -> Iterator[str]:
        """The documents decoded with the tokenizer of the store; words that it does not know are missing."""
        tokenizer = self.tokenizer()
        return (tokenizer.decode(self.document(index)) for index in range(self.num_documents))

    def tokenizer(self) -> Tokenizer:
        """The tokenizer of the store, from the copy in its folder."""
        assert self.folder is not None, "a store in memory has no copy of its tokenizer"
        tokenizer = Tokenizer.load(self.folder)
        if tokenizer.fingerprint != self.fingerprint:
            raise InputError(
                f"{self.folder}: tokenizer.json is not the one the store was built with (fingerprint "
                f"{tokenizer.fingerprint}, the store's is {self.fingerprint}). Build the store again."
            )
        return tokenizer

    def verify(self) -> None:
        """Read all files and raise every damage found; slow for a large store."""
        assert self.folder is not None, "a store in memory has no checksums"
        problems = []
        for name, entry in self.meta["arrays"].items():
            if self._content_hash(name) != entry["sha256"]:
                where = f"The array {name} of {self.folder}" if "shards" in self.meta else self.folder / file_name(name)
                problems.append(
                    f"{where} is damaged: its SHA-256 differs from the recorded one. "
                    "Restore it from a copy, or build the store again with: headswap store"
                )
        if (np.diff(self.offsets) < 0).any():
            problems.append(f"{self.folder}: the document offsets are not ascending.")
        if self.num_tokens and int(self.ids.max()) >= self.meta["vocab_size"]:
            problems.append(f"{self.folder}: there are ids above the vocabulary size {self.meta['vocab_size']}.")
        raise_problems(problems)
        self.tokenizer()

    def _content_hash(self, name: str) -> str:
        """The SHA-256 of an array; that of many shards is that of the same documents in one shard."""
        assert self.folder is not None
        if "shards" not in self.meta:
            return sha256_of_file(self.folder / file_name(name))
        return sha256_of_array(self.array(name))

    def array(self, name: str) -> Any:
        """An array by its name."""
        return self.sides[name] if name in self.sides else getattr(self, name)

    def _check_sizes(self) -> None:
        meta, counts = self.meta, (self.num_documents, self.num_tokens, len(self.byte_counts))
        expected = (meta["num_documents"], meta["num_tokens"], meta["num_documents"])
        sides_fit = all(len(side) == self.num_tokens for side in self.sides.values())
        if counts != expected or not sides_fit or self.offsets[0] != 0 or self.offsets[-1] != self.num_tokens:
            raise _damaged(self.folder, f"its arrays do not match {META_FILE}")


def num_tokens_equal(store: TokenStore, token: int | None) -> int:
    """How often a token occurs in a store; 0 for a token that the tokenizer does not have."""
    if token is None:
        return 0
    starts = range(0, store.num_tokens, PIECE)
    return sum(int((store.ids[start : start + PIECE] == token).sum()) for start in starts)


def sha256_of_array(array: Any) -> str:
    """The SHA-256 of the content of an array, read in pieces."""
    digest = hashlib.sha256()
    for start in range(0, len(array), PIECE):
        digest.update(np.ascontiguousarray(array[start : start + PIECE]).tobytes())
    return digest.hexdigest()


def is_store(path: str | Path) -> bool:
    """Whether a path is the folder of a token store."""
    return (Path(path) / META_FILE).is_file()


def build_store(
    documents: Iterable[Document],
    tokenizer: Tokenizer,
    folder: Path,
    *,
    side: Sequence[str] = (),
    corpus_hash: str = "",
    options: Mapping[str, Any] | None = None,
) -> TokenStore:
    """Encode the documents into the store `folder`, which is created atomically and replaces an existing store."""
    check_side(side)
    with atomic_folder(folder, OWN_FILES) as temporary:
        written = write_arrays(documents, tokenizer, temporary, side)
        check_filled(written)
        tokenizer.save(temporary / "tokenizer.json")
        meta = {"headswap_store": FORMAT_VERSION, "corpus_hash": corpus_hash, "options": dict(options or {})}
        write_json(temporary / META_FILE, meta | written)
    return TokenStore.open(folder)


def check_filled(meta: Mapping[str, Any]) -> None:
    """Raise if a store has no tokens."""
    if not meta["num_tokens"]:
        what = "the tokenizer makes no tokens of it" if meta["num_documents"] else "it contains no documents"
        raise InputError(f"The corpus cannot be stored: {what}.")


def check_side(names: Sequence[str]) -> None:
    """Raise if a name is not that of a side array."""
    for name in names:
        if name not in SIDE_ARRAYS:
            hint = did_you_mean(name, SIDE_ARRAYS)
            raise InputError(f"'{name}' is not a side array of a token store (allowed: {listed(SIDE_ARRAYS)}).{hint}")


def _read_meta(folder: Path) -> dict[str, Any]:
    if not is_store(folder):
        raise InputError(f"{folder} is not a token store: there is no {META_FILE} in it.")
    meta = read_json(folder / META_FILE)
    if not isinstance(meta, dict) or meta.get("headswap_store") not in (FORMAT_VERSION, SHARDED_VERSION):
        found = meta.get("headswap_store") if isinstance(meta, dict) else None
        raise InputError(
            f"{folder} is a token store of format {found}, and this headswap reads formats "
            f"{FORMAT_VERSION} and {SHARDED_VERSION}. "
            "Build it again with: headswap store"
        )
    if missing := [name for name in NEEDED_META if name not in meta]:
        raise _damaged(folder, f"{META_FILE} lacks {listed(missing)}")
    wrong = [name for name in NEEDED_COUNTS if type(meta[name]) is not int or meta[name] < 0]
    wrong += [name for name, kind in (("fingerprint", str), ("arrays", dict)) if not isinstance(meta[name], kind)]
    if wrong:
        raise _damaged(folder, f"{META_FILE} has a wrong value for {listed(wrong)}")
    if missing := [name for name in ARRAYS if name not in meta["arrays"]]:
        raise _damaged(folder, f"{META_FILE} lacks the arrays {listed(missing)}")
    return meta


def _map(folder: Path, name: str, entry: Mapping[str, Any]) -> np.ndarray:
    file = folder / file_name(name)
    dtype, length = np.dtype(entry["dtype"]), int(entry["length"])
    if dtype.str not in DTYPES[name]:
        raise _damaged(
            folder, f"{META_FILE} gives {file.name} the type {dtype}; it must be {' or '.join(DTYPES[name])}"
        )
    size = file.stat().st_size if file.is_file() else None
    if size != length * dtype.itemsize:
        found = "is missing" if size is None else f"has {size:,} bytes"
        raise _damaged(folder, f"{file.name} {found} where {length * dtype.itemsize:,} are expected")
    # As a plain array: slicing a memmap creates a memmap, which takes three times as long.
    return np.memmap(file, dtype=dtype, mode="r").view(np.ndarray) if length else np.zeros(0, dtype=dtype)


def _damaged(folder: Path | None, what: str) -> InputError:
    return InputError(f"The token store {folder} is damaged: {what}. Build it again with: headswap store")
