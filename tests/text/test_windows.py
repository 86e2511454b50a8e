"""Pre-training rows: every token is predicted once an epoch, and no row crosses a document."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headswap.core.seeds import Draws
from headswap.text.windows import Rows

SOS, EOS = 0, 2


def store_of(documents: list[list[int]]) -> SimpleNamespace:
    offsets = np.concatenate(([0], np.cumsum([len(document) for document in documents]))).astype(np.uint64)
    return SimpleNamespace(offsets=offsets, document=lambda index: np.array(documents[index], dtype=np.uint16))


def rows_of(documents: list[list[int]], max_length: int, layout: str) -> Rows:
    chosen = np.arange(len(documents))
    return Rows(store_of(documents), chosen, max_length=max_length, layout=layout, sos_id=SOS, eos_id=EOS)


documents = st.lists(st.lists(st.integers(6, 300), max_size=30), min_size=1, max_size=12)


@given(documents, st.integers(2, 17))
def test_packed_rows_predict_every_token_and_every_end_exactly_once(texts: list[list[int]], length: int) -> None:
    rows = rows_of(texts, length, "packed")
    pieces = rows.pieces_of(range(len(rows)), Draws(0))
    inputs: dict[int, list[int]] = {index: [] for index in range(len(texts))}
    targets: dict[int, list[int]] = {index: [] for index in range(len(texts))}
    for piece in pieces:
        assert piece.start == len(inputs[piece.document])
        inputs[piece.document] += piece.stream[:-1].tolist()
        targets[piece.document] += piece.stream[1:].tolist()
    assert inputs == {index: [SOS, *text] for index, text in enumerate(texts)}
    assert targets == {index: [*text, EOS] for index, text in enumerate(texts)}


@given(documents, st.integers(2, 17))
def test_packed_rows_are_full_but_for_the_last(texts: list[list[int]], length: int) -> None:
    rows = rows_of(texts, length, "packed")
    sizes = [sum(len(piece.stream) - 1 for piece in rows.pieces(row)) for row in range(len(rows))]
    assert all(size == length for size in sizes[:-1])
    assert sum(sizes) == rows.num_tokens == sum(len(text) + 1 for text in texts)


def test_a_document_a_row_is_cut_as_the_lab_cuts_it() -> None:
    """`<sos>` and at most length - 1 pieces; the target is the line shifted by one, ending in `<eos>`."""
    rows = rows_of([[7, 8, 9, 10, 11], [7, 8]], 4, "documents")
    assert len(rows) == 2
    assert rows.pieces(0)[0].stream.tolist() == [SOS, 7, 8, 9, EOS]
    assert rows.pieces(1)[0].stream.tolist() == [SOS, 7, 8, EOS]
    assert rows.num_truncated == 2


def test_only_the_chosen_documents_are_used() -> None:
    store = store_of([[6], [7], [8], [9]])
    rows = Rows(store, np.array([1, 3]), max_length=8, layout="packed", sos_id=SOS, eos_id=EOS)
    assert [(piece.document, piece.stream.tolist()) for piece in rows.pieces(0)] == [(1, [0, 7, 2]), (3, [0, 9, 2])]


@pytest.mark.parametrize("layout", ["packed", "documents"])
def test_an_empty_document_still_predicts_its_end(layout: str) -> None:
    rows = rows_of([[], [6]], 8, layout)
    assert rows.pieces_of(range(len(rows)), Draws(0))[0].stream.tolist() == [SOS, EOS]
