"""Repeats among shards: a band that many texts share, empty shards, and the rows of each shard."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headswap.data import shard_duplicates
from headswap.data.shard_duplicates import MOST_IN_BAND, find_in_part, repeated_rows, write_fingerprints


def found(folder: Path, shards: list[list[str]], *, near: bool = True, num_parts: int = 3) -> list[list[int]]:
    folder.mkdir()
    for number, texts in enumerate(shards):
        write_fingerprints(texts, folder, number, num_parts=num_parts, near=near)
    for part in range(num_parts):
        find_in_part(folder, part, num_shards=len(shards), near=near)
    return [repeated_rows(folder, number, num_parts=num_parts).tolist() for number in range(len(shards))]


def words(number: int, *, last: str = "end") -> str:
    draw = np.random.default_rng(number)
    return " ".join(f"word{value}" for value in draw.integers(0, 10**6, 40)) + f" {last}"


def test_the_first_text_in_the_order_of_the_corpus_is_kept(tmp_path: Path) -> None:
    shards = [[words(1), words(2)], [words(2).upper(), words(3), words(1, last="other")], [words(3), words(3)]]
    assert found(tmp_path / "near", shards) == [[], [0, 2], [0, 1]]
    assert found(tmp_path / "exact", shards, near=False) == [[], [0], [0, 1]]
    assert found(tmp_path / "one", shards, num_parts=1) == [[], [0, 2], [0, 1]]


def test_texts_that_are_not_near_are_kept(tmp_path: Path) -> None:
    half = words(1).split()[:20]
    shards = [[words(1)], [" ".join([*half, *words(2).split()[20:]])], [words(4)]]
    assert found(tmp_path / "work", shards) == [[], [], []]


def test_many_texts_in_one_band_are_compared_with_the_first_ones_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = []
    original = shard_duplicates._Trigrams.are_near

    def counted(self: Any, ones: np.ndarray, others: np.ndarray) -> np.ndarray:
        compared.append(len(ones))
        return original(self, ones, others)

    monkeypatch.setattr(shard_duplicates._Trigrams, "are_near", counted)
    monkeypatch.setattr(shard_duplicates, "MOST_PAIRS", 400)
    shards = [[words(1, last=f"last{number}") for number in range(300)]]
    assert found(tmp_path / "work", shards) == [list(range(1, 300))]
    assert sum(compared) <= shard_duplicates.NUM_BANDS * 300 * MOST_IN_BAND
    assert max(compared) <= 2 * 400


def test_pieces_of_a_part_are_small_and_do_not_change_what_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Texts that are not near each other, equal ones, and more than a piece of those that differ in one word."""
    draw = np.random.default_rng(5)
    texts = [words(number) for number in range(60)] + [words(1, last=f"last{number % 60}") for number in range(120)]
    texts += [words(number).upper() for number in range(20)] + [words(number, last="other") for number in range(20)]
    every = [texts[place] for place in draw.permutation(len(texts))]
    shards = [every[start : start + 40] for start in range(0, len(every), 40)]
    expected = found(tmp_path / "whole", shards)
    assert 150 < sum(map(len, expected)) < 170
    monkeypatch.setattr(shard_duplicates, "MOST_RECORDS", 37)
    monkeypatch.setattr(shard_duplicates, "MOST_OPEN", 2)
    assert found(tmp_path / "pieces", shards) == expected
    pieces = list(shard_duplicates._pieces(tmp_path / "pieces", "near", 0, len(shards)))
    assert {len(piece) for piece in pieces[:-1]} == {37}
    assert len(np.concatenate(pieces)) > 1_000
