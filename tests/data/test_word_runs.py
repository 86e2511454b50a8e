"""Runs of words: hashes do not depend on the place, the filter forgets nothing, records come back from the file."""

import numpy as np
import pytest

from headswap.core.random_streams import numpy_stream
from headswap.data import word_runs
from headswap.data.word_runs import RUN_WORDS, RunFilter, Spill, Windows, groups_of_parts


def test_a_run_has_the_same_hash_everywhere_and_another_one_with_another_word() -> None:
    words = numpy_stream(0, "words").integers(0, 1 << 32, 40, dtype=np.uint32)
    alone, shifted = Windows(words, np.array([40])), Windows(np.concatenate([words[:3], words]), np.array([3, 40]))
    places, hashes = alone.full_runs()
    assert places.tolist() == list(range(40 - RUN_WORDS + 1))
    assert shifted.full_runs()[0].tolist() == (places + 3).tolist()
    assert shifted.full_runs()[1].tolist() == hashes.tolist()
    for place in range(RUN_WORDS):
        changed = words.copy()
        changed[place] ^= 1
        assert Windows(changed, np.array([40])).full_runs()[1][0] != hashes[0]
    assert len(Windows(words[:12], np.array([5, 7])).full_runs()[0]) == 0


def test_the_filter_forgets_nothing_and_is_rarely_wrong() -> None:
    known, others = numpy_stream(0, "filter").integers(0, 1 << 64, (2, 20_000), dtype=np.uint64)
    tested = RunFilter(len(known))
    tested.add(known[:5_000])
    tested.add(known[5_000:])
    assert len(tested.may_have(known)) == len(known)
    assert len(tested.may_have(others)) < 0.03 * len(others)


def test_records_come_back_by_part_in_the_order_in_which_they_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_runs, "BUFFER_RECORDS", 10)
    spill = Spill(np.dtype("<u4"))
    numbers = np.arange(100, dtype=np.uint32)
    for some in np.array_split(numbers, 7):
        spill.append(some % 5, some)
    spill.seal()
    assert spill.sizes[:6].tolist() == [20, 20, 20, 20, 20, 0]
    for first, last in ((0, 1), (3, 5), (5, 256)):
        expected = [number for number in range(100) if first <= number % 5 < last]
        assert sorted(spill.read(first, last).tolist()) == expected
    assert spill.read(2, 3).tolist() == list(range(2, 100, 5))


def test_parts_are_grouped_up_to_a_size() -> None:
    assert list(groups_of_parts(np.array([3, 0, 3, 9, 1, 0]), 6)) == [(0, 3), (3, 4), (4, 6)]
    assert list(groups_of_parts(np.zeros(4, dtype=np.int64), 6)) == []
