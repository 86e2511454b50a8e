"""Sequences from long texts and from pairs of texts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headswap.batches.long_texts import cut_text, home_windows, join_pair, window_spans
from headswap.tokens.frame import Frame

MARKS = Frame(100, (100,), (101,))


@given(st.integers(1, 200), st.integers(1, 30), st.one_of(st.none(), st.integers(0, 40)))
def test_windows_cover_the_text_are_full_and_each_position_has_one_best_window(
    length: int, room: int, overlap: int | None
) -> None:
    spans = window_spans(length, room, overlap)
    assert {position for start, end in spans for position in range(start, end)} == set(range(length))
    assert all(end - start == min(room, length) for start, end in spans)
    assert len(set(spans)) == len(spans)
    homes = home_windows(np.arange(length), spans)
    for position, home in enumerate(homes):
        start, end = spans[home]
        assert start <= position < end
        mine = min(position - start, end - 1 - position)
        assert all(mine >= min(position - a, b - 1 - position) for a, b in spans)


def test_adjacent_windows_overlap_as_set() -> None:
    assert window_spans(20, 8, 3) == [(0, 8), (5, 13), (10, 18), (12, 20)]
    assert window_spans(8, 8, 3) == [(0, 8)]


def test_texts_are_cut_as_set() -> None:
    ids = np.arange(20)

    def cut(long: str) -> list[list[int]]:
        parts = cut_text(ids, MARKS, max_length=9, long=long, overlap=4)  # type: ignore[arg-type]
        return [part.tolist() for part in parts]

    assert cut("truncate") == [[100, 0, 1, 2, 3, 4, 5, 6, 7]]
    assert cut("head+tail") == [[100, 0, 1, 14, 15, 16, 17, 18, 19]]
    assert cut("windows") == [[100, *range(start, start + 8)] for start in (0, 4, 8, 12)]
    short = cut_text(ids[:8], MARKS, max_length=9, long="windows", overlap=4)
    assert [part.tolist() for part in short] == [[100, *range(8)]]


@pytest.mark.parametrize(
    ("first", "second", "kept"), [(2, 3, (2, 3)), (9, 2, (6, 2)), (2, 9, (2, 6)), (9, 9, (4, 4)), (3, 9, (3, 5))]
)
def test_of_a_pair_the_longer_text_is_cut_first(first: int, second: int, kept: tuple[int, int]) -> None:
    ids, segments, lost = join_pair(np.arange(first), np.arange(50, 50 + second), MARKS, max_length=10)
    assert ids.tolist() == [100, *range(kept[0]), 101, *range(50, 50 + kept[1])]
    assert segments.tolist() == [0] * (kept[0] + 2) + [1] * kept[1]
    assert lost == first + second - sum(kept)
