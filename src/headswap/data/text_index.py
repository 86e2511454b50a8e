"""An index of the texts of one set, which finds the equal text or the most similar text of other texts.

In memory it needs about 250 bytes per text, whatever the length of the texts: digests, bands, and positions in three
temporary files, which contain the words, the trigrams and the beginnings of the texts. Texts that share a band are
candidates, and each candidate is verified by the exact Jaccard similarity, so there are no false positives. Candidates
are collected and verified in groups of bounded size. Short texts that differ in one word are found by short_texts.py,
which needs up to 350 bytes more for each of them.
"""

import os
import tempfile
from collections.abc import Iterator
from typing import Any

import numpy as np

from headswap.data.fingerprints import BLOCK_TEXTS, NUM_BANDS, Fingerprints, first_of_equal, sorted_unique
from headswap.data.ragged import ragged
from headswap.data.short_texts import NO_ROW, ShortTexts

MOST_PAIRS = 500_000
"""Pairs of a text and a candidate that are collected before they are verified; one text may have more."""
MOST_TRIGRAMS = 2_000_000
"""Trigrams that are compared at a time; one pair may have more."""
HIGHEST_NEAR = 0.9999  # 1.0 is for equal texts; other texts can have the same trigrams
_MIXER = np.uint64(0x9E3779B97F4A7C15)


class TextIndex:
    """The texts of one set, indexed by content: they are added, then `seal` is called, then texts can be found."""

    def __init__(self, near: float) -> None:
        self.near = near
        self._parts: dict[str, list[np.ndarray]] = {"digests": [], "bands": [], "sizes": [], "sets": []}
        self._trigrams, self._beginnings, self._words = _RowsOnDisk(), _RowsOnDisk(), _RowsOnDisk()
        self._short_texts, self._num_texts = ShortTexts(), 0

    def add(self, block: Fingerprints) -> None:
        """Add texts; their words, trigrams and beginnings are written to the disk."""
        self._short_texts.add(block, self._num_texts)
        self._num_texts += len(block)
        self._words.append(block.words.tobytes(), block.num_words * block.words.itemsize)
        self._trigrams.append(block.trigrams.tobytes(), block.sizes * block.trigrams.itemsize)
        shown = [text.encode() for text in block.beginnings]
        self._beginnings.append(b"".join(shown), np.array([len(text) for text in shown]))
        mixed = (block.trigrams + np.uint64(1)) * _MIXER
        sets = np.add.reduceat(mixed ^ (mixed >> np.uint64(29)), np.cumsum(block.sizes) - block.sizes)
        values = {"digests": block.digests, "bands": block.bands, "sizes": block.sizes.astype(np.int32), "sets": sets}
        for name, array in values.items():
            self._parts[name].append(array)

    def seal(self) -> None:
        """Sort what was added. Of texts with the same trigrams the first is always preferred, so only it is indexed."""
        self.digests = _joined(self._parts.pop("digests"), np.zeros((0, 2), np.uint64))
        self.bands = _joined(self._parts.pop("bands"), np.zeros((0, NUM_BANDS), np.uint32))
        self.sizes = _joined(self._parts.pop("sizes"), np.zeros(0, np.int32))
        sets = _joined(self._parts.pop("sets"), np.zeros(0, np.uint64))
        self._trigrams.seal()
        self._beginnings.seal()
        self._words.seal()
        self._short_texts.seal()
        self._first_rows = first_of_equal(self.digests[:, 0], self.digests[:, 1])
        self._sorted_digests = self.digests[self._first_rows]
        rows = np.sort(first_of_equal(sets, self.sizes)).astype(np.uint32)
        self._sorted_bands: list[tuple[np.ndarray, np.ndarray]] = []
        for number in range(NUM_BANDS):
            order = rows[np.argsort(self.bands[rows, number], kind="stable")]
            self._sorted_bands.append((self.bands[order, number], order))

    def blocks(self) -> Iterator[Fingerprints]:
        """The fingerprints of all texts as they were added."""
        for start in range(0, len(self.sizes), BLOCK_TEXTS):
            rows = np.arange(start, min(start + BLOCK_TEXTS, len(self.sizes)))
            shown = [self.beginning(row) for row in rows.tolist()]
            words, num_words = _joined_rows(self._words, rows), self._words.lengths_of(rows) // 4
            trigrams = _joined_rows(self._trigrams, rows)
            yield Fingerprints(
                self.digests[rows], self.bands[rows], trigrams, self.sizes[rows], shown, words, num_words
            )

    def beginning(self, row: int) -> str:
        """The first characters of a text."""
        return self._beginnings.read(row).decode()

    def find(self, block: Fingerprints, *, first_row: int | None = None) -> tuple[np.ndarray, np.ndarray]:
        """The row of the equal or most similar text and its similarity, for each text; `NO_ROW` if none is near.

        With `first_row` the texts are those of this index from this row on, and only earlier rows are searched.
        """
        rows, scores = self._find_equal(block.digests)
        own_rows = None if first_row is None else first_row + np.arange(len(block))
        if own_rows is not None:
            rows = np.where(rows < own_rows, rows, NO_ROW)
        scores = np.where(rows == NO_ROW, 0.0, scores)
        starts = np.cumsum(block.sizes) - block.sizes
        for texts, candidates in self._candidates(block, np.flatnonzero(rows == NO_ROW), own_rows):
            near = self._similarities(block, starts, texts, candidates)
            is_near = near >= self.near
            texts, candidates, near = texts[is_near], candidates[is_near], near[is_near]
            best = np.lexsort((candidates, -near, texts))
            best = best[np.append(True, np.diff(texts[best]) > 0)[: len(best)]]
            rows[texts[best]], scores[texts[best]] = candidates[best], near[best]
        others, shares = self._short_texts.find(block)
        is_short = (rows == NO_ROW) & (others != NO_ROW) & (own_rows is None or others < own_rows)
        return np.where(is_short, others, rows), np.where(is_short, shares, scores)

    def _find_equal(self, digests: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        if not len(self._sorted_digests):
            return np.full(len(digests), NO_ROW), np.zeros(len(digests))
        places = np.searchsorted(self._sorted_digests[:, 0], digests[:, 0]).clip(max=len(self._sorted_digests) - 1)
        is_equal = (self._sorted_digests[places] == digests).all(axis=1)
        return np.where(is_equal, self._first_rows[places], NO_ROW), is_equal.astype(np.float64)

    def _candidates(
        self, block: Fingerprints, texts: np.ndarray, own_rows: np.ndarray | None
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(texts of the block, candidate rows), sorted by text; all candidates of a text are in one group."""
        ranges = [
            (
                np.searchsorted(keys, block.bands[texts, number]),
                np.searchsorted(keys, block.bands[texts, number], "right"),
            )
            for number, (keys, _) in enumerate(self._sorted_bands)
        ]
        totals = np.cumsum(sum((ends - begins for begins, ends in ranges), start=np.zeros(len(texts), dtype=np.int64)))
        done = 0
        while done < len(texts):
            before = totals[done - 1] if done else 0
            end = max(done + 1, int(np.searchsorted(totals, before + MOST_PAIRS, "right")))
            found = []
            for (begins, ends), (_, order) in zip(ranges, self._sorted_bands, strict=True):
                counts = (ends - begins)[done:end]
                rows = order[ragged(begins[done:end], counts)].astype(np.int64)
                found.append(np.repeat(texts[done:end], counts) * len(self.sizes) + rows)
            pairs = sorted_unique(np.concatenate(found))
            numbers, rows = np.divmod(pairs, max(1, len(self.sizes)))
            sizes, others = block.sizes[numbers], self.sizes[rows]
            is_possible = np.minimum(sizes, others) >= self.near * np.maximum(sizes, others)
            if own_rows is not None:
                is_possible &= rows < own_rows[numbers]
            yield numbers[is_possible], rows[is_possible]
            done = end

    def _similarities(
        self, block: Fingerprints, starts: np.ndarray, texts: np.ndarray, candidates: np.ndarray
    ) -> np.ndarray:
        """The Jaccard similarity of each pair of a text of the block and a candidate."""
        result = np.zeros(len(texts))
        totals = np.cumsum(block.sizes[texts].astype(np.int64) + self.sizes[candidates])
        done = 0
        while done < len(texts):
            before = totals[done - 1] if done else 0
            end = max(done + 1, int(np.searchsorted(totals, before + MOST_TRIGRAMS, "right")))
            ours, theirs = block.sizes[texts[done:end]], self.sizes[candidates[done:end]]
            own_pairs, other_pairs = (np.repeat(np.arange(end - done), sizes) for sizes in (ours, theirs))
            own = _keys(own_pairs, block.trigrams[ragged(starts[texts[done:end]], ours)])
            other = _keys(other_pairs, _joined_rows(self._trigrams, candidates[done:end]))
            is_shared = other[np.searchsorted(other, own).clip(max=len(other) - 1)] == own
            shared = np.bincount(own_pairs[is_shared], minlength=end - done)
            result[done:end] = np.minimum(shared / (ours + theirs - shared), HIGHEST_NEAR)
            done = end
        return result


class _RowsOnDisk:
    """Byte strings in a temporary file, which the operating system removes with the process."""

    def __init__(self) -> None:
        self.file: Any = tempfile.TemporaryFile(buffering=1 << 20)  # noqa: SIM115 - closed with the object
        self.lengths: list[np.ndarray] = [np.zeros(1, dtype=np.int64)]
        self.offsets = np.zeros(0, dtype=np.int64)

    def append(self, data: bytes, lengths: np.ndarray) -> None:
        """Append several rows; `lengths` are their bytes."""
        self.file.write(data)
        self.lengths.append(lengths.astype(np.int64))

    def seal(self) -> None:
        """Make the rows readable."""
        self.file.flush()
        self.offsets = np.cumsum(np.concatenate(self.lengths))
        self.lengths = []

    def lengths_of(self, rows: np.ndarray) -> np.ndarray:
        """The bytes of some rows."""
        return self.offsets[rows + 1] - self.offsets[rows]

    def read(self, row: int) -> bytes:
        """The bytes of a row."""
        start, end = self.offsets[row : row + 2].tolist()
        return os.pread(self.file.fileno(), end - start, start)


def _joined_rows(kept: _RowsOnDisk, rows: np.ndarray) -> np.ndarray:
    """The values of some texts, end to end."""
    return np.frombuffer(b"".join(map(kept.read, rows.tolist())), dtype=np.uint32)


def _keys(pairs: np.ndarray, trigrams: np.ndarray) -> np.ndarray:
    """One ascending key per trigram of each pair."""
    return (pairs.astype(np.uint64) << np.uint64(32)) | trigrams


def _joined(parts: list[np.ndarray], nothing: np.ndarray) -> np.ndarray:
    return np.concatenate(parts) if parts else nothing
