"""The index of texts: what it finds equals what comparing every pair finds, in groups of any size."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headswap.data import fingerprints as fingerprinting
from headswap.data import text_index
from headswap.data.fingerprints import fingerprints
from headswap.data.overlap import find_overlap, similarity
from headswap.data.text_index import NO_ROW, TextIndex

TEXTS = st.lists(st.text("ab .", max_size=12), min_size=1, max_size=30)


def index_of(texts: list[str], near: float) -> TextIndex:
    index = TextIndex(near)
    for block in fingerprints(texts):
        index.add(block)
    index.seal()
    return index


@settings(max_examples=100, deadline=None)
@given(ours=TEXTS, theirs=TEXTS)
def test_a_text_finds_the_most_similar_one_and_of_those_the_first(ours: list[str], theirs: list[str]) -> None:
    (block,) = fingerprints(ours)
    rows, scores = index_of(theirs, near=0.999).find(block)
    for text, row, score in zip(ours, rows.tolist(), scores.tolist(), strict=True):
        same = [number for number, other in enumerate(theirs) if similarity(text, other) == 1.0]
        equal = [number for number in same if theirs[number].split() == text.split()]
        assert row == (equal or same or [NO_ROW])[0]
        assert score == (1.0 if equal else text_index.HIGHEST_NEAR if same else 0.0)


def test_the_size_of_groups_and_blocks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = np.random.default_rng(0)
    texts = [" ".join(stream.choice(["a", "b", "c", "d"], 8)) for _ in range(300)]
    sets = {"one": texts[:200], "other": texts[200:]}
    expected = find_overlap(sets, near=0.6)
    assert sum(len(found.near) for found in expected) > 10
    monkeypatch.setattr(text_index, "MOST_PAIRS", 3)
    monkeypatch.setattr(text_index, "MOST_TRIGRAMS", 5)
    monkeypatch.setattr(fingerprinting, "BLOCK_TEXTS", 7)
    monkeypatch.setattr(text_index, "BLOCK_TEXTS", 11)
    assert find_overlap(sets, near=0.6) == expected


def test_an_empty_set_contains_nothing() -> None:
    (block,) = fingerprints(["a b c"])
    rows, scores = index_of([], near=0.8).find(block)
    assert (rows.tolist(), scores.tolist()) == ([NO_ROW], [0.0])
