"""Pre-training rows: every token is predicted once per epoch, and no piece crosses a document boundary."""

from itertools import chain
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headswap.batches.windows import Rows
from headswap.core.random_streams import Draws

SOS, EOS = 0, 2


def store_of(documents: list[list[int]]) -> SimpleNamespace:
    offsets = np.concatenate(([0], np.cumsum([len(document) for document in documents]))).astype(np.uint64)
    return SimpleNamespace(offsets=offsets, ids=np.array([*chain(*documents)], dtype=np.uint16))


def rows_of(documents: list[list[int]], max_length: int, layout: str) -> Rows:
    chosen = np.arange(len(documents))
    return Rows(store_of(documents), chosen, max_length=max_length, layout=layout, sos_id=SOS, eos_id=EOS)


def streams(rows: Rows, *chosen: int) -> list[tuple[int, int, list[int]]]:
    """(document, start, inputs and the next token) of every piece of some rows, or of all rows."""
    pieces = rows.pieces_of(chosen or range(len(rows)), Draws(0))
    firsts = np.cumsum(pieces.lengths) - pieces.lengths
    assert (pieces.ids[1:] == pieces.next_ids[:-1])[np.diff(np.repeat(firsts, pieces.lengths)) == 0].all()
    return [
        (
            int(document),
            int(start),
            [*pieces.ids[first : first + size].tolist(), int(pieces.next_ids[first + size - 1])],
        )
        for document, start, first, size in zip(pieces.documents, pieces.starts, firsts, pieces.lengths, strict=True)
    ]


documents = st.lists(st.lists(st.integers(6, 300), max_size=30), min_size=1, max_size=12)


@given(documents, st.integers(2, 17))
def test_packed_rows_predict_every_token_and_every_end_exactly_once(texts: list[list[int]], length: int) -> None:
    rows = rows_of(texts, length, "packed")
    inputs: dict[int, list[int]] = {index: [] for index in range(len(texts))}
    targets: dict[int, list[int]] = {index: [] for index in range(len(texts))}
    for document, start, stream in streams(rows):
        assert start == len(inputs[document])
        inputs[document] += stream[:-1]
        targets[document] += stream[1:]
    assert inputs == {index: [SOS, *text] for index, text in enumerate(texts)}
    assert targets == {index: [*text, EOS] for index, text in enumerate(texts)}


@given(documents, st.integers(2, 17))
def test_packed_rows_are_full_except_the_last(texts: list[list[int]], length: int) -> None:
    rows = rows_of(texts, length, "packed")
    sizes = [sum(len(stream) - 1 for *_, stream in streams(rows, row)) for row in range(len(rows))]
    assert all(size == length for size in sizes[:-1])
    assert sum(sizes) == rows.num_tokens == sum(len(text) + 1 for text in texts)


def test_rows_of_one_document_are_truncated_as_in_the_lab() -> None:
    """`<sos>` and at most length - 1 pieces; the target is the line shifted by one, ending in `<eos>`."""
    rows = rows_of([[7, 8, 9, 10, 11], [7, 8]], 4, "documents")
    assert len(rows) == 2
    assert streams(rows) == [(0, 0, [SOS, 7, 8, 9, EOS]), (1, 0, [SOS, 7, 8, EOS])]
    assert rows.num_truncated == 2


def test_only_the_chosen_documents_are_used() -> None:
    store = store_of([[6], [7], [8], [9]])
    rows = Rows(store, np.array([1, 3]), max_length=8, layout="packed", sos_id=SOS, eos_id=EOS)
    assert streams(rows) == [(1, 0, [SOS, 7, EOS]), (3, 0, [SOS, 9, EOS])]


@pytest.mark.parametrize("layout", ["packed", "documents"])
def test_the_end_of_an_empty_document_is_predicted(layout: str) -> None:
    rows = rows_of([[], [6]], 8, layout)
    assert streams(rows) == [(0, 0, [SOS, EOS]), (1, 0, [SOS, 6, EOS])]


def test_rows_are_the_same_one_by_one_and_together_in_any_order() -> None:
    rng = np.random.default_rng(0)
    rows = rows_of([rng.integers(6, 300, size).tolist() for size in rng.integers(0, 40, 30)], 16, "packed")
    order = rng.permutation(len(rows)).tolist()
    assert streams(rows, *order) == [piece for row in order for piece in streams(rows, row)]


@pytest.mark.parametrize("layout", ["packed", "documents"])
def test_word_starts_are_the_first_tokens_and_those_of_the_side_array(layout: str) -> None:
    texts, begins = [[7, 8, 9], [], [10, 11]], [True, False, True, True, False]
    store = store_of(texts)
    store.side = {"word_starts": np.array(begins)}.__getitem__
    rows = Rows(store, np.arange(3), max_length=4, layout=layout, sos_id=SOS, eos_id=EOS, with_words=True)
    pieces = rows.pieces_of(range(len(rows)), Draws(0))
    assert pieces.word_starts is not None
    assert pieces.ids.tolist() == [SOS, 7, 8, 9, SOS, SOS, 10, 11]
    assert pieces.word_starts.tolist() == [True, True, False, True, True, True, True, False]
