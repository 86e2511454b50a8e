"""Hashes of corpora and files, the file that caches them, and the cache folder."""

import os
import time
from pathlib import Path

import pytest

from headswap.data import content_hash as content
from headswap.data.content_hash import cache_folder, corpus_hash, file_hash


def old(path: Path) -> Path:
    """Set an old modification time."""
    os.utime(path, (1_000_000_000, 1_000_000_000))
    return path


def test_the_extension_is_part_of_the_content(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text\none\n")
    (tmp_path / "a.csv").write_text("text\none\n")
    assert corpus_hash([str(tmp_path / "a.txt")]) != corpus_hash([str(tmp_path / "a.csv")])


def test_a_file_given_twice_counts_once_and_its_copy_counts_again(tmp_path: Path) -> None:
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_text("same\n")
    two.write_text("same\n")
    (tmp_path / "sub").mkdir()
    same = tmp_path / "sub" / ".." / "one.txt"
    assert corpus_hash([str(one), str(same), str(one)]) == corpus_hash([str(one)])
    assert corpus_hash([str(one), str(two)]) != corpus_hash([str(one)])


def test_named_data_sets_are_hashed_by_their_content(corpus_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = {"stars": "1", "moons": "2"}
    monkeypatch.setattr(content, "is_named", lambda source: source in contents)
    monkeypatch.setattr(content, "content_hash", contents.__getitem__)
    file = str(corpus_file)
    orders = [["stars"], ["moons"], [file, "stars"], ["stars", file], ["stars", "moons"]]
    hashes = [corpus_hash(sources) for sources in orders]
    assert len(set(hashes)) == len(orders)
    contents["stars"] = "3"
    assert corpus_hash(["stars"]) != hashes[0]


def test_the_hash_of_a_file_is_cached_until_the_file_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one")
    first = file_hash(old(file))
    calls: list[Path] = []
    monkeypatch.setattr(content, "sha256_of_file", lambda path: calls.append(path) or "computed")
    assert file_hash(file) == first
    assert calls == []
    os.utime(file, (1_000_000_001, 1_000_000_001))
    assert file_hash(file) == "computed"


def test_the_hash_of_a_file_that_has_just_changed_is_not_cached(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one")
    os.utime(file, (time.time() + 60, time.time() + 60))
    first = file_hash(file)
    state = file.stat()
    file.write_text("two")
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert file_hash(file) != first


@pytest.mark.parametrize("broken", ["{", "[]", '{"a": 1}'])
def test_a_broken_file_of_cached_hashes_is_replaced(tmp_path: Path, broken: str) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one")
    expected = file_hash(old(file))
    (cache_folder() / "hashes.json").write_text(broken)
    assert file_hash(file) == expected


def test_the_environment_sets_the_cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADSWAP_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("HEADSWAP_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "headswap"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "headswap"
