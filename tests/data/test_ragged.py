"""Ranges of positions, end to end."""

import numpy as np
import pytest

from headswap.data.ragged import ragged


@pytest.mark.parametrize(
    ("starts", "lengths"),
    [([], []), ([7], [0]), ([7], [3]), ([0, 10, 4], [2, 3, 1]), ([5, 9, 9], [0, 2, 0]), ([3, 3], [2, 2])],
)
def test_the_positions_are_those_of_python_ranges(starts: list[int], lengths: list[int]) -> None:
    expected = [place for start, length in zip(starts, lengths, strict=True) for place in range(start, start + length)]
    found = ragged(np.array(starts, dtype=np.int64), np.array(lengths, dtype=np.int64))
    assert found.tolist() == expected
