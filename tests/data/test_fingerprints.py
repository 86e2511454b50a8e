"""Fingerprints: the trigrams of a text do not depend on its block, nor on how its words are read."""

import pytest

from headswap.data import fingerprints as fingerprinting
from headswap.data.fingerprints import digests_of, fingerprints, first_of_equal, trigrams_of, words_of

TEXTS = ["", "a", "a b", "a b c", "!!! ???", "one two three four five", "この映画は", "a b c d a b c d", "x_y z"]


def test_the_trigrams_of_a_text_do_not_depend_on_the_texts_around_it() -> None:
    together, sizes = trigrams_of(*words_of(TEXTS))
    alone = [trigrams_of(*words_of([text]))[0].tolist() for text in TEXTS]
    assert [len(one) for one in alone] == sizes.tolist()
    assert [trigram for one in alone for trigram in one] == together.tolist()
    assert sizes.tolist() == [1, 1, 1, 1, 1, 3, 3, 4, 1]


def test_a_long_text_has_the_same_trigrams(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [trigrams_of(*words_of([text]))[0].tolist() for text in TEXTS]
    monkeypatch.setattr(fingerprinting, "LONG_TEXT", 0)
    assert [trigrams_of(*words_of([text]))[0].tolist() for text in TEXTS] == expected


def test_blocks_are_bounded_by_texts_and_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fingerprinting, "BLOCK_TEXTS", 3)
    monkeypatch.setattr(fingerprinting, "BLOCK_CHARACTERS", 10)
    sizes = [len(block) for block in fingerprints(["abc"] * 4 + ["a" * 20, "b"])]
    assert sizes == [3, 1, 1, 1]


def test_the_first_of_equal_rows_is_kept() -> None:
    digests = digests_of(["b", "a", "b", "c", "a"])
    assert sorted(first_of_equal(*digests.T).tolist()) == [0, 1, 3]
