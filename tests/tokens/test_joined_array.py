"""Several arrays read as one: equal to their concatenation."""

import numpy as np
import pytest

from headswap.tokens.joined_array import JoinedArray

PARTS = [np.arange(5, dtype="<u2"), np.zeros(0, "<u2"), np.arange(40, 47, dtype="<u2"), np.array([9], "<u2")]
WHOLE = np.concatenate(PARTS)


@pytest.fixture
def joined() -> JoinedArray:
    return JoinedArray(PARTS, np.dtype("<u2"))


def test_slices_within_and_across_parts(joined: JoinedArray) -> None:
    for start in range(-1, 15):
        for stop in (None, *range(-3, 16)):
            found = joined[start:stop]
            assert found.dtype == WHOLE.dtype
            assert np.array_equal(found, WHOLE[start:stop]), (start, stop)
    assert np.array_equal(joined[::3], WHOLE[::3])
    assert np.shares_memory(joined[1:4], PARTS[0]), "a slice of one part is a view"


def test_entries_at_indices(joined: JoinedArray) -> None:
    indices = np.array([12, 0, 4, 5, 5, 11, -1])
    assert np.array_equal(joined[indices], WHOLE[indices])
    assert np.array_equal(joined.take(np.array([-4, 3, 99])), WHOLE.take([-4, 3, 99], mode="clip"))
    assert np.array_equal(joined[WHOLE > 8], WHOLE[WHOLE > 8])
    assert (joined[6], joined[-1]) == (WHOLE[6], WHOLE[-1])
    with pytest.raises(IndexError):
        joined[np.array([13])]


def test_as_a_whole(joined: JoinedArray) -> None:
    assert (len(joined), joined.itemsize, joined.shape, joined.max()) == (13, 2, (13,), 46)
    assert np.array_equal(np.asarray(joined, dtype=np.int64), WHOLE)
    assert list(joined) == list(WHOLE)
    assert len(JoinedArray([], np.dtype("<u2"))[:5]) == 0
