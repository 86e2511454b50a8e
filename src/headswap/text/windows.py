"""Rows for pre-training, computed from a token store.

A document's stream is `<sos>`, its tokens, `<eos>`; every token of it but the first is predicted once. `packed` cuts
the streams of all documents, end to end, into windows of equal length; a window holds several *pieces* and attention
never crosses from one to the next. `documents` makes one row of each document, cut at the length limit as the lab
does.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from headswap.core.seeds import Draws

if TYPE_CHECKING:
    from headswap.text.store import TokenStore

Layout = Literal["packed", "documents"]


@dataclass(frozen=True, slots=True)
class Piece:
    """Part of a document's stream: `stream[:-1]` are inputs, `stream[1:]` the tokens that follow them."""

    document: int
    start: int
    stream: np.ndarray
    word_starts: np.ndarray | None = None
    """Whether each input begins a word, where the rows were asked for it; `<sos>` does."""


class Rows:
    """The rows of some documents of a store, each computed when it is asked for."""

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
        self._inputs = offsets[documents + 1] - offsets[documents] + 1
        if layout == "documents":
            self.num_truncated = int(np.maximum(self._inputs - max_length, 0).sum())
            self._inputs = np.minimum(self._inputs, max_length)
        else:
            self.num_truncated = 0
        self._ends = np.cumsum(self._inputs)
        self.num_tokens = int(self._ends[-1]) if len(documents) else 0

    def __len__(self) -> int:
        return len(self.documents) if self.layout == "documents" else -(-self.num_tokens // self.max_length)

    def pieces(self, row: int) -> list[Piece]:
        """What stands in one row."""
        if self.layout == "documents":
            return [self._piece(row, 0, int(self._inputs[row]))]
        start, end = row * self.max_length, min((row + 1) * self.max_length, self.num_tokens)
        position = int(np.searchsorted(self._ends, start, side="right"))
        pieces = []
        while start < end:
            document_end = int(self._ends[position])
            begin = document_end - int(self._inputs[position])
            upto = min(end, document_end)
            pieces.append(self._piece(position, start - begin, upto - begin))
            start, position = upto, position + 1
        return pieces

    def pieces_of(self, rows: Sequence[int] | np.ndarray, draws: Draws) -> list[Piece]:
        """The pieces of several rows, in their order."""
        del draws  # a window is what it is
        return [piece for row in rows for piece in self.pieces(int(row))]

    def _piece(self, position: int, start: int, end: int) -> Piece:
        """Inputs start..end of a document's stream and the token after them."""
        document = int(self.documents[position])
        ids = self.store.document(document)
        last = int(self._inputs[position])  # the stream ends with <eos> here, also where `documents` cut it
        body = ids[max(start - 1, 0) : min(end, last - 1)]
        begin = 1 if start == 0 else 0
        stream = np.empty(begin + len(body) + (end == last), dtype=np.int64)
        stream[begin : begin + len(body)] = body
        if begin:
            stream[0] = self.sos_id
        if end == last:
            stream[-1] = self.eos_id
        return Piece(document, start, stream, self._words(document, start, end))

    def _words(self, document: int, start: int, end: int) -> np.ndarray | None:
        if self._word_starts is None:
            return None
        begin = int(self.store.offsets[document])
        inside = np.asarray(self._word_starts[begin + max(start - 1, 0) : begin + end - 1], dtype=bool)
        return np.concatenate(([True], inside)) if start == 0 else inside
