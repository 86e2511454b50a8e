"""Runs of consecutive words as hashes, a filter of the runs of a set, and records of runs in a temporary file.

A run has 13 words; a text of 8 to 12 words is one run. The hash of a run is computed from the hashes of its first and
its last eight words, which are the same for runs of all lengths. The filter (Bloom 1970) tells in a few bits per run
that a run is certainly not in a set. Records are written to a file in 256 parts by a key, and each part is read alone,
so that the memory does not grow with their number.
"""

import os
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

RUN_WORDS, FEWEST_WORDS = 13, 8
BITS_PER_RUN, MOST_BITS = 16, 1 << 29
NUM_PARTS = 256
BUFFER_RECORDS = 500_000
"""Records that are collected before they are written."""
_FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)


class Windows:
    """The words of some texts, end to end, as hashes of eight words, from which runs of 8 to 16 words are hashed."""

    def __init__(self, words: np.ndarray, num_words: np.ndarray) -> None:
        self.num_words = num_words
        self.text_of = np.repeat(np.arange(len(num_words), dtype=np.uint32), num_words)
        self.left = np.repeat(np.cumsum(num_words), num_words) - np.arange(len(words))
        """Words from each place to the end of its text."""
        self.starts = np.cumsum(num_words) - num_words
        hashes = words.astype(np.uint64)
        for width in (1, 2, 4):
            hashes = _joined(hashes[:-width], hashes[width:]) if len(hashes) > width else hashes[:0]
        self.eight = hashes

    def runs(self, places: np.ndarray, width: int) -> np.ndarray:
        """The hashes of the runs of `width` words that begin at some places of the end-to-end words."""
        return _joined(self.eight[places], self.eight[places + (width - FEWEST_WORDS)]) + np.uint64(width)

    def full_runs(self) -> tuple[np.ndarray, np.ndarray]:
        """The places and hashes of all runs of 13 words."""
        places = np.flatnonzero(self.left >= RUN_WORDS)
        return places, self.runs(places, RUN_WORDS)


def _joined(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    mixed = (first ^ (first >> np.uint64(31))) * _FIRST + second
    mixed ^= mixed >> np.uint64(29)
    mixed *= _SECOND
    mixed ^= mixed >> np.uint64(32)
    return mixed


class RunFilter:
    """Whether a hash may be in a set: never wrong if it is, wrong in about 1 of 100 cases if it is not.

    The high bits of a hash choose a word of 64 bits, in which the low bits choose three bits.
    """

    def __init__(self, capacity: int) -> None:
        num_bits = min(1 << max(16, (capacity * BITS_PER_RUN - 1).bit_length()), MOST_BITS)
        self.table = np.zeros(num_bits // 64, dtype=np.uint64)
        self.shift = np.uint64(64 - (len(self.table).bit_length() - 1))

    def add(self, hashes: np.ndarray) -> None:
        """Add hashes to the set."""
        if len(hashes):
            hashes = np.sort(hashes)
            places = hashes >> self.shift
            starts = np.flatnonzero(np.append(True, places[1:] != places[:-1]))
            self.table[places[starts]] |= np.bitwise_or.reduceat(_three_bits(hashes), starts)

    def may_have(self, hashes: np.ndarray) -> np.ndarray:
        """The indices of the hashes that may be in the set."""
        bits = _three_bits(hashes)
        return np.flatnonzero((self.table[hashes >> self.shift] & bits) == bits)


def _three_bits(hashes: np.ndarray) -> np.ndarray:
    one, low = np.uint64(1), np.uint64(63)
    first, second, third = hashes & low, (hashes >> np.uint64(6)) & low, (hashes >> np.uint64(12)) & low
    return (one << first) | (one << second) | (one << third)


class Spill:
    """Records in a temporary file, which the operating system removes with the process, readable in parts."""

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype = dtype
        self.sizes = np.zeros(NUM_PARTS, dtype=np.int64)
        self._file: Any = None
        self._written: list[np.ndarray] = []
        self._waiting: list[tuple[np.ndarray, np.ndarray]] = []
        self._num_waiting = 0

    def append(self, parts: np.ndarray, records: np.ndarray) -> None:
        """Append records; `parts` are numbers below 256."""
        self._waiting.append((parts.astype(np.uint8), records))
        self._num_waiting += len(records)
        if self._num_waiting >= BUFFER_RECORDS:
            self._write()

    def _write(self) -> None:
        if not self._num_waiting:
            return
        if self._file is None:
            self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed with the object
        parts = np.concatenate([parts for parts, _ in self._waiting])
        records = np.concatenate([records for _, records in self._waiting])
        self._file.write(records[np.argsort(parts, kind="stable")].tobytes())
        counts = np.bincount(parts, minlength=NUM_PARTS)
        self._written.append(counts)
        self.sizes += counts
        self._waiting, self._num_waiting = [], 0

    def seal(self) -> None:
        """Write what is left."""
        self._write()

    def read(self, first: int, last: int) -> np.ndarray:
        """The records of the parts first to last - 1, in the order in which they were appended within each part."""
        found, start = [np.zeros(0, dtype=self.dtype)], 0
        for counts in self._written:
            begin, end = int(counts[:first].sum()), int(counts[:last].sum())
            size = self.dtype.itemsize
            if end > begin:
                data = os.pread(self._file.fileno(), (end - begin) * size, (start + begin) * size)
                found.append(np.frombuffer(data, dtype=self.dtype))
            start += int(counts.sum())
        return np.concatenate(found)


def groups_of_parts(sizes: np.ndarray, most: int) -> Iterator[tuple[int, int]]:
    """Ranges of consecutive parts with at most `most` records; one part may have more."""
    first = 0
    total = 0
    for part, size in enumerate(sizes.tolist()):
        if total and total + size > most:
            yield first, part
            first, total = part, 0
        total += size
    if total:
        yield first, len(sizes)
