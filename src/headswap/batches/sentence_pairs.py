"""Pairs of segments for next-sentence and sentence-order prediction, computed from a token store.

A document is cut at sentence ends into chunks that fit a row; a chunk with a sentence boundary inside is a row. At
every step the row is split at one of its boundaries into the first segment, `<sep>`, and the second segment. For half
of the rows the second segment is replaced by one from another document (`next`) or the two are swapped (`order`). A
replacement is drawn among the second segments that have the length of the replaced one, so that lengths do not tell
which pairs are original. All of this is a function of the row and the step. Chunks of a single sentence give no pair;
their tokens are counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from headswap.core.errors import InputError
from headswap.core.random_streams import Draws
from headswap.tokens.store import TokenStore

PairKind = Literal["next", "order"]
LEAST_CHOICE = 16
"""If fewer second segments have a length, those with the nearest lengths are also candidates."""
ATTEMPTS = 8
"""Draws until a segment of another document is found; more are needed only if one document has most of the text."""


class NoPairsError(InputError):
    """Some documents form no sentence pairs, or no negative ones."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive tokens of one document."""

    document: int
    start: int
    ids: np.ndarray
    word_starts: np.ndarray | None


@dataclass(frozen=True, slots=True)
class Pair:
    """Two segments, and whether they are consecutive and in order in one document."""

    first: Segment
    second: Segment
    is_original: bool

    @property
    def document(self) -> int:
        """The document of the row."""
        return self.first.document


class PairRows:
    """The rows of some documents of a store; new pairs are drawn from them at every step."""

    def __init__(
        self, store: TokenStore, documents: np.ndarray, *, max_length: int, kind: PairKind, with_words: bool
    ) -> None:
        self.store, self.documents, self.max_length, self.kind = store, documents, max_length, kind
        self._room = max_length - 2  # <sos> and <sep>
        self._word_starts = store.side("word_starts") if with_words else None
        self._sentences = np.flatnonzero(store.side("sentence_starts"))
        self._find_chunks()
        if kind == "next":
            self._sort_by_length()
        self.num_truncated = 0

    def _find_chunks(self) -> None:
        """Find all chunks in advance, so that a row can be accessed by its number."""
        offsets = np.asarray(self.store.offsets, dtype=np.int64)
        rows: list[tuple[int, int, int, int]] = []
        left_out = 0
        for document in self.documents:
            start, end = int(offsets[document]), int(offsets[document + 1])
            while start < end:
                stop = min(start + self._room, end)
                after, before = np.searchsorted(self._sentences, [start + 1, stop + 1])
                if stop < end and before > after:
                    stop = int(self._sentences[before - 1])  # the last boundary within the limit
                    before -= 1
                elif before > after and self._sentences[before - 1] == stop:
                    before -= 1
                if before > after:
                    rows.append((int(document), start, stop, int(after)))
                else:
                    left_out += stop - start
                start = stop
        table = np.array(rows, dtype=np.int64).reshape(-1, 4)
        self._document, self._start, self._end, self._boundary = table.T
        self.num_left_out = left_out
        self.num_tokens = int((self._end - self._start + 2).sum())
        self._check()

    def _sort_by_length(self) -> None:
        """Sort all second segments by their length: one number per sentence of the corpus."""
        last = np.searchsorted(self._sentences, self._end)
        counts = last - self._boundary
        before = np.cumsum(counts) - counts
        sentences = np.arange(counts.sum()) + np.repeat(self._boundary - before, counts)
        lengths = np.repeat(self._end, counts) - self._sentences[sentences]
        self._by_length = sentences[np.argsort(lengths, kind="stable")]
        per_length = np.bincount(lengths, minlength=self.max_length)
        self._first_of_length = np.concatenate(([0], np.cumsum(per_length)))

    def _check(self) -> None:
        """Raise if the documents have no pairs, or no negative ones."""
        where = self.store.folder or "the corpus"
        if not len(self):
            raise NoPairsError(
                f"No document of {where} has two sentences that fit into {self.max_length} tokens, so there are no "
                "sentence pairs. Give documents of several sentences (blank lines between documents and "
                "--documents paragraph, or one document per line), or use --objective masked."
            )
        if self.kind == "next" and self._document[0] == self._document[-1]:
            raise NoPairsError(
                f"Only one document of {where} has pairs of sentences, so there is no other document to draw a "
                "wrong next segment from. Separate the documents (--documents), or use --objective masked+sop."
            )

    def __len__(self) -> int:
        return len(self._document)

    def pieces_of(self, rows: Sequence[int] | np.ndarray, draws: Draws) -> list[Pair]:
        """The pairs of some rows, in their order, at the step of `draws`."""
        numbers = np.asarray(rows, dtype=np.int64)
        splits, coins = draws.uniform("split", numbers), draws.uniform("pair", numbers)
        if self.kind == "order":
            shares = np.zeros((len(numbers), 0))
        else:
            shares = np.stack([draws.uniform("other", numbers, attempt) for attempt in range(ATTEMPTS)], axis=1)
        return [
            self._pair(int(row), split, coin < 0.5, share)
            for row, split, coin, share in zip(numbers, splits, coins, shares, strict=True)
        ]

    def _pair(self, row: int, split: float, is_original: bool, shares: np.ndarray) -> Pair:
        document, end = int(self._document[row]), int(self._end[row])
        middle = self._boundary_of(row, split)
        first = self._segment(document, int(self._start[row]), middle)
        if is_original or self.kind == "order":
            second = self._segment(document, middle, end)
            return Pair(first, second, is_original) if is_original else Pair(second, first, is_original)
        return Pair(first, self._replacement(row, end - middle, self._room - len(first.ids), shares), is_original)

    def _replacement(self, row: int, length: int, most: int, shares: np.ndarray) -> Segment:
        """A second segment of another document, with this length or the nearest lengths, of at most `most` tokens."""
        low, high = self._first_of_length[length], self._first_of_length[length + 1]
        if high - low < LEAST_CHOICE:
            high = min((low + high + LEAST_CHOICE) // 2, self._first_of_length[most + 1])
            low = max(0, high - LEAST_CHOICE)
        for share in shares:
            begin = int(self._sentences[self._by_length[low + int(share * (high - low))]])
            other_row = int(np.searchsorted(self._start, begin, side="right")) - 1
            if self._document[other_row] != self._document[row]:
                return self._segment(int(self._document[other_row]), begin, int(self._end[other_row]))
        return self._of_another_document(row, length, most, shares[0])

    def _of_another_document(self, row: int, length: int, most: int, share: float) -> Segment:
        """The second segment nearest in length in a row of another document, cut if it is longer than `most`."""
        other_row = self._other_row(row, share)
        end = int(self._end[other_row])
        sentences = self._sentences[self._boundary[other_row] : np.searchsorted(self._sentences, end)]
        begin = int(sentences[np.abs(end - sentences - length).argmin()])
        return self._segment(int(self._document[other_row]), begin, min(end, begin + most))

    def _boundary_of(self, row: int, share: float) -> int:
        """One of the sentence boundaries inside a row, chosen by a number in [0, 1)."""
        first = int(self._boundary[row])
        last = int(np.searchsorted(self._sentences, self._end[row]))
        return int(self._sentences[first + int(share * (last - first))])

    def _other_row(self, row: int, share: float) -> int:
        """A row of another document, all with the same probability; rows of one document are consecutive."""
        first, last = self._range_of(int(self._document[row]))
        chosen = int(share * (len(self) - (last - first)))
        return chosen if chosen < first else chosen + last - first

    def _range_of(self, document: int) -> tuple[int, int]:
        first, last = np.searchsorted(self._document, [document, document + 1])
        return int(first), int(last)

    def _segment(self, document: int, start: int, end: int) -> Segment:
        words = None if self._word_starts is None else np.asarray(self._word_starts[start:end], dtype=bool)
        position = start - int(self.store.offsets[document])
        return Segment(document, position, self.store.ids[start:end].astype(np.int64), words)
