"""Rows for pre-training, computed from a token store.

A document's stream is `<sos>`, its tokens, `<eos>`; every token of it except the first is predicted once. `packed`
concatenates the streams of all documents and cuts them into windows of equal length; a window contains several
*pieces*, and attention does not cross piece boundaries. `documents` makes one row per document, truncated at the length
limit, as the lab does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from headswap.core.random_streams import Draws

if TYPE_CHECKING:
    from headswap.tokens.store import TokenStore


Layout = Literal["packed", "documents"]


@dataclass(frozen=True, slots=True)
class Pieces:
    """Parts of documents' streams, end to end: the inputs, and the next token of each input."""

    ids: np.ndarray
    next_ids: np.ndarray
    lengths: np.ndarray
    """Number of inputs of each piece."""
    documents: np.ndarray
    starts: np.ndarray
    """Position of the first input of each piece in its document's stream."""
    word_starts: np.ndarray | None = None
    """Whether each input begins a word (`<sos>` does); None unless the rows were made with `with_words`."""


class Rows:
    """The rows of some documents of a store; a row is computed when it is requested."""

    def __init__(
        self,
        store: "TokenStore",
        documents: np.ndarray,
        *,
        max_length: int,
        layout: Layout,
        sos_id: int,
        eos_id: int,
        with_words: bool = False,
    ) -> None:
        self.store, self.documents, self.max_length, self.layout = store, documents, max_length, layout
        self.sos_id, self.eos_id = sos_id, eos_id
        self._word_starts = store.side("word_starts") if with_words else None
        offsets = np.asarray(store.offsets, dtype=np.int64)
        self._begins = offsets[documents]
        self._inputs = offsets[documents + 1] - self._begins + 1
        if layout == "documents":
            self.num_truncated = int(np.maximum(self._inputs - max_length, 0).sum())
            self._inputs = np.minimum(self._inputs, max_length)
        else:
            self.num_truncated = 0
        self._ends = np.cumsum(self._inputs)
        self.num_tokens = int(self._ends[-1]) if len(documents) else 0

    def __len__(self) -> int:
        return len(self.documents) if self.layout == "documents" else -(-self.num_tokens // self.max_length)

    def pieces_of(self, rows: Sequence[int] | np.ndarray, draws: Draws) -> Pieces:
        """The pieces of several rows, in their order; vectorised, since there may be thousands of pieces."""
        del draws  # windows are not random
        positions, starts, lengths = self._spans(np.asarray(rows, dtype=np.int64))
        documents, has_begin = self.documents[positions], starts == 0
        has_end = (
            starts + lengths == self._inputs[positions]
        )  # with the layout `documents` a truncated stream ends here too
        ends = np.cumsum(lengths)
        firsts, lasts = ends - lengths, ends - 1
        # The token after input number t of a stream is number t of the document.
        following = self._begins[positions] + starts
        indices = np.arange(lengths.sum()) + np.repeat(following - firsts, lengths)
        next_ids = self._tokens(self.store.ids, indices).astype(np.int64)
        next_ids[lasts[has_end]] = self.eos_id
        ids = np.empty_like(next_ids)
        ids[1:] = next_ids[:-1]
        ids[firsts] = np.where(has_begin, self.sos_id, self._tokens(self.store.ids, following - 1))
        words = None
        if self._word_starts is not None:
            words = self._tokens(self._word_starts, indices - 1).astype(bool)
            words[firsts[has_begin]] = True
        return Pieces(ids, next_ids, lengths, documents, starts, words)

    def _spans(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(index of the document, first input, number of inputs) of every piece."""
        if self.layout == "documents":
            return rows, np.zeros_like(rows), self._inputs[rows]
        begins = rows * self.max_length
        ends = np.minimum(begins + self.max_length, self.num_tokens)
        first = np.searchsorted(self._ends, begins, side="right")
        counts = np.searchsorted(self._ends, ends, side="left") + 1 - first
        before = np.cumsum(counts) - counts
        positions = np.arange(counts.sum()) + np.repeat(first - before, counts)
        document_ends = self._ends[positions]
        document_begins = document_ends - self._inputs[positions]
        starts = np.maximum(np.repeat(begins, counts), document_begins)
        return positions, starts - document_begins, np.minimum(np.repeat(ends, counts), document_ends) - starts

    @staticmethod
    def _tokens(array: np.ndarray, indices: np.ndarray) -> np.ndarray:
        """The entries at some indices; arbitrary where an index is out of range, since a special token is put there."""
        return array.take(indices, mode="clip") if len(array) else np.zeros(len(indices), array.dtype)
