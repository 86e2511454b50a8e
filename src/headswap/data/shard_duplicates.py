"""Exact and near duplicates among the texts of many shards, found part by part with bounded memory.

1. `write_fingerprints`, once per shard: the digests and bands of its texts are written to a file, divided into parts by
   their values, and the trigrams of its texts to another.
2. `find_in_part`, once per part: texts with equal values are in the same part of every shard. Of equal texts all but
   the first are repeats. Texts that share a band are compared by the Jaccard similarity of their trigrams.
3. `repeated_rows`, once per shard: its rows that repeat an earlier text of any shard, in the order of the corpus.

A part has about as many texts as a shard if there are as many parts as shards, so memory does not grow with the corpus.
A digest or a band that very many texts share would make its part larger than that, so the records of a part are read
piece by piece, and of each piece only those records are kept that later texts are compared with. Files are read, not
mapped: mapped pages would count as memory of the process.
The definitions of equal and near are those of the overlap check (overlap.py), with two differences: a text is compared
only with the first `MOST_IN_BAND` different texts that share a band with it, and short texts that differ in one word
are not searched for.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np

from headswap.core.errors import InputError
from headswap.core.files import atomic_file
from headswap.data.fingerprints import NUM_BANDS, fingerprints, sorted_unique
from headswap.data.overlap import NEAR
from headswap.data.ragged import ragged

Duplicates = Literal["keep", "exact", "near"]
MOST_IN_BAND = 8
MOST_PAIRS = 100_000
"""Pairs of texts that are compared at a time."""
MOST_RECORDS = 1_000_000
"""Records that are read at a time."""
MOST_OPEN = 200
"""Shards whose files are open at a time."""
RECENT = 2 * MOST_IN_BAND
"""Texts whose trigrams are held in memory: the first ones of a band are compared with all later ones."""
ROW_BITS = 40
"""The number of a text in the corpus: its shard in the high bits, its row in the low ones."""
RECORD = np.dtype([("key", "<u8"), ("check", "<u8"), ("text", "<i8")])
"""A digest or a band of a text. Of a digest, `check` is its second half; of a band, a hash of the text's trigrams."""
TRIGRAMS = (np.dtype("<u4"), 0)
"""The type of the values of a file of trigrams, which has no header."""
_MIXER = np.uint64(0x9E3779B97F4A7C15)


def write_fingerprints(texts: Iterable[str], folder: Path, shard: int, *, num_parts: int, near: bool) -> None:
    """Write the files of one shard; memory grows with the number of its texts, not with their length."""
    kinds: dict[str, list[np.ndarray]] = {"exact": [], "near": []}
    sizes = [np.zeros(0, np.int64)]
    first = np.int64(shard) << ROW_BITS
    with atomic_file(_trigram_file(folder, shard)) as temporary, temporary.open("wb") as trigrams:
        for block in fingerprints(texts):
            numbers = first + np.arange(len(block))
            kinds["exact"].append(_records(block.digests[:, 0], block.digests[:, 1], numbers))
            if near:
                block_trigrams = block.trigrams.astype("<u4")
                trigrams.write(block_trigrams.tobytes())
                mixed = (block.trigrams + np.uint64(1)) * _MIXER
                sets = np.add.reduceat(mixed ^ (mixed >> np.uint64(29)), np.cumsum(block.sizes) - block.sizes)
                for band in range(NUM_BANDS):
                    keys = (np.uint64(band) << np.uint64(32)) | block.bands[:, band].astype(np.uint64)
                    kinds["near"].append(_records(keys, sets, numbers))
                sizes.append(block.sizes.astype(np.int64))
            first += len(block)
    _save(_file(folder, "sizes", shard), np.cumsum(np.concatenate([[0], *sizes])))
    for kind, records in kinds.items():
        if records and (kind == "exact" or near):
            _save_parts(folder, kind, shard, np.concatenate(records), num_parts)


def find_in_part(folder: Path, part: int, *, num_shards: int, near: bool) -> None:
    """Write the numbers of the texts that repeat an earlier one, by the records of one part of all shards."""
    found = [np.zeros(0, np.int64), *_repeats(_pieces(folder, "exact", part, num_shards))]
    if near:
        with _Trigrams(folder) as trigrams:
            for ones, others in _candidates(_pieces(folder, "near", part, num_shards)):
                found.append(others[trigrams.are_near(ones, others)])
    _save(_file(folder, "found", part), sorted_unique(np.concatenate(found)))


def repeated_rows(folder: Path, shard: int, *, num_parts: int) -> np.ndarray:
    """The rows of a shard that repeat an earlier text, ascending."""
    low, high = np.int64(shard) << ROW_BITS, np.int64(shard + 1) << ROW_BITS
    rows = [np.zeros(0, np.int64)]
    for part in range(num_parts):
        numbers = np.load(_file(folder, "found", part), mmap_mode="r")
        begin, end = np.searchsorted(numbers, [low, high])
        rows.append(np.asarray(numbers[begin:end]) - low)
    return sorted_unique(np.concatenate(rows))


def has_fingerprints(folder: Path, shard: int, *, near: bool) -> bool:
    """Whether the files of a shard are complete; the last one is written last."""
    return _file(folder, "near" if near else "exact", shard).exists()


def has_found(folder: Path, part: int) -> bool:
    """Whether a part is done."""
    return _file(folder, "found", part).exists()


def _file(folder: Path, kind: str, number: int) -> Path:
    return folder / f"{kind}-{number:05d}.npy"


def _trigram_file(folder: Path, shard: int) -> Path:
    return folder / f"trigrams-{shard:05d}.bin"


def _save(file: Path, values: np.ndarray) -> None:
    with atomic_file(file) as temporary, temporary.open("wb") as handle:
        np.save(handle, values)


def _records(keys: np.ndarray, checks: np.ndarray, texts: np.ndarray) -> np.ndarray:
    records = np.empty(len(keys), dtype=RECORD)
    records["key"], records["check"], records["text"] = keys, checks, texts
    return records


def _save_parts(folder: Path, kind: str, shard: int, records: np.ndarray, num_parts: int) -> None:
    """Write the records ordered by their part, and where each part begins."""
    mixed = records["key"] * _MIXER
    parts = (mixed ^ (mixed >> np.uint64(32))) % np.uint64(num_parts)
    order = np.argsort(parts, kind="stable")
    starts = np.searchsorted(parts[order], np.arange(num_parts + 1))
    _save(_file(folder, f"{kind}-starts", shard), starts)
    _save(_file(folder, kind, shard), records[order])


def _pieces(folder: Path, kind: str, part: int, num_shards: int) -> Iterator[np.ndarray]:
    """The records of a part in pieces of bounded size. Records with the same key are in the order of their texts."""
    waiting: list[np.ndarray] = []
    for shard in range(num_shards):
        begin, end = _read(_file(folder, f"{kind}-starts", shard), part, part + 2).tolist()
        while begin < end:
            num_read = min(end - begin, MOST_RECORDS - sum(map(len, waiting)))
            waiting.append(_read(_file(folder, kind, shard), begin, begin + num_read))
            begin += num_read
            if sum(map(len, waiting)) == MOST_RECORDS:
                yield np.concatenate(waiting)
                waiting = []
    if waiting:
        yield np.concatenate(waiting)


def _read(file: Path, begin: int, end: int) -> np.ndarray:
    """Some values of a saved array."""
    with file.open("rb") as handle:
        return _read_open(handle, _header(handle), begin, end)


def _header(handle: BinaryIO) -> tuple[np.dtype, int]:
    """The type of the values of a saved array, and where they begin in its file."""
    np.lib.format.read_magic(handle)
    _, _, dtype = np.lib.format.read_array_header_1_0(handle)
    return dtype, handle.tell()


def _read_open(handle: BinaryIO, header: tuple[np.dtype, int], begin: int, end: int) -> np.ndarray:
    dtype, start = header
    handle.seek(start + begin * dtype.itemsize)
    data, size = b"", (end - begin) * dtype.itemsize
    while len(data) < size:  # a file system may return a part of what is asked for
        if not (piece := handle.read(size - len(data))):
            raise InputError(f"{handle.name} is shorter than it was when it was written.")
        data += piece
    return np.frombuffer(data, dtype=dtype)


def _repeats(pieces: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """The texts whose key and check an earlier text has, piece by piece."""
    kept = np.zeros(0, RECORD)
    for piece in pieces:
        records = np.concatenate([kept, piece])
        ordered = records[np.lexsort((records["text"], records["check"], records["key"]))]
        is_same = (ordered["key"][1:] == ordered["key"][:-1]) & (ordered["check"][1:] == ordered["check"][:-1])
        is_repeat = np.append(False, is_same)
        yield ordered["text"][is_repeat]
        kept = ordered[~is_repeat]


def _candidates(pieces: Iterable[np.ndarray]) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(earlier text, later text) of texts that share a band, in groups of bounded size; those of a later one adjoin."""
    ones: list[np.ndarray] = []
    others: list[np.ndarray] = []
    num_pairs = 0
    kept = np.zeros(0, RECORD)
    for piece in pieces:
        order = np.argsort(np.concatenate([kept["key"], piece["key"]]), kind="stable")
        records, is_new = np.concatenate([kept, piece])[order], order >= len(kept)
        starts = np.flatnonzero(np.append(True, records["key"][1:] != records["key"][:-1]))
        ends = np.append(starts[1:], len(records))
        is_kept = np.ones(len(records), dtype=bool)
        for start, end in zip(starts[ends - starts > 1].tolist(), ends[ends - starts > 1].tolist(), strict=True):
            group = records[start:end]
            first_of_set = np.sort(np.unique(group["check"], return_index=True)[1])[:MOST_IN_BAND]
            is_kept[start:end] = False
            is_kept[start + first_of_set] = True
            rows = np.flatnonzero(is_new[start:end])
            for some in np.array_split(rows, -(-len(rows) * MOST_IN_BAND // MOST_PAIRS) or 1):
                counts = np.searchsorted(first_of_set, some)  # different texts before each one
                ones.append(group["text"][first_of_set][ragged(np.zeros_like(counts), counts)])
                others.append(np.repeat(group["text"][some], counts))
                num_pairs += int(counts.sum())
                if num_pairs >= MOST_PAIRS:
                    yield np.concatenate(ones), np.concatenate(others)
                    ones, others, num_pairs = [], [], 0
        kept = records[is_kept]
    if ones:
        yield np.concatenate(ones), np.concatenate(others)


class _Trigrams:
    """The trigrams of texts, read from the files of their shards."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._open: dict[int, tuple[BinaryIO, BinaryIO, tuple[np.dtype, int]]] = {}
        self._recent = lru_cache(maxsize=RECENT)(self._of)

    def __enter__(self) -> "_Trigrams":
        return self

    def __exit__(self, *_: object) -> None:
        for shard in list(self._open):
            self._close(shard)

    def are_near(self, ones: np.ndarray, others: np.ndarray) -> np.ndarray:
        """Whether the Jaccard similarity of a pair is large enough; after the first such pair of `other`, False."""
        result = np.zeros(len(ones), dtype=bool)
        last_found = -1
        for number, (one, other) in enumerate(zip(ones.tolist(), others.tolist(), strict=True)):
            if other == last_found:
                continue
            first, second = self._recent(one), self._recent(other)
            if min(len(first), len(second)) >= NEAR * max(len(first), len(second)):
                shared = len(np.intersect1d(first, second, assume_unique=True))
                if shared / (len(first) + len(second) - shared) >= NEAR:
                    result[number], last_found = True, other
        return result

    def _of(self, text: int) -> np.ndarray:
        shard, row = text >> ROW_BITS, text & ((1 << ROW_BITS) - 1)
        if shard not in self._open:
            if len(self._open) >= MOST_OPEN:
                self._close(next(iter(self._open)))
            sizes: BinaryIO = _file(self.folder, "sizes", shard).open("rb", buffering=0)
            self._open[shard] = sizes, _trigram_file(self.folder, shard).open("rb", buffering=0), _header(sizes)
        ends, content, header = self._open[shard]
        begin, end = _read_open(ends, header, row, row + 2).tolist()
        return _read_open(content, TRIGRAMS, begin, end)

    def _close(self, shard: int) -> None:
        for file in self._open.pop(shard)[:2]:
            file.close()
