"""Hashes of corpora and files, the file that caches them, and the cache folder."""

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headswap.data import content_hash as content
from headswap.data.content_hash import cache_folder, corpus_hash, file_hashes


def file_hash(path: Path) -> str:
    return file_hashes([path])[path]


def old(path: Path) -> Path:
    """Set an old modification time."""
    os.utime(path, (1_000_000_000, 1_000_000_000))
    return path


@pytest.fixture
def caching(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes of files that have just changed are cached too: the ctime of a file cannot be set to an old date."""
    monkeypatch.setattr(content, "FRESH_SECONDS", -1)


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


@pytest.mark.usefixtures("caching")
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


def write_in_place(file: Path, text: str) -> None:
    """As `rsync --inplace -t`: the same inode, and the old date."""
    before = file.stat()
    file.write_text(text)
    while file.stat().st_ctime_ns == before.st_ctime_ns:  # until the clock of the file system has ticked
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    old(file)


def replace(file: Path, text: str) -> None:
    """As `cp -p` and `tar -x` of another file: another inode, and the old date."""
    (file.parent / "new").write_text(text)
    old(file.parent / "new").rename(file)


@pytest.mark.usefixtures("caching")
@pytest.mark.parametrize("change", [write_in_place, replace])
def test_other_content_of_the_same_length_and_date_is_hashed_anew(
    tmp_path: Path, change: Callable[[Path, str], None]
) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one")
    first, before = file_hash(old(file)), file.stat()
    change(file, "two")
    assert (file.stat().st_size, file.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    assert file_hash(file) != first


@pytest.mark.usefixtures("caching")
def test_the_hash_of_a_labelled_file_is_computed_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one")
    first = corpus_hash([str(file)])
    monkeypatch.setattr(content, "sha256_of_file", lambda path: "computed")
    assert corpus_hash([str(file)]) == first
    assert corpus_hash([str(file)], labelled=[str(file)]) != first


def test_the_hash_of_a_file_that_has_just_changed_is_not_remembered(tmp_path: Path) -> None:
    """Whatever its mtime says: a second change within one tick of the clock could leave the ctime as it is."""
    file = tmp_path / "a.txt"
    file.write_text("one")
    file_hash(old(file))
    os.utime(file, (time.time() + 60, time.time() + 60))
    file_hash(file)
    assert not (cache_folder() / "hashes.json").exists()


@pytest.mark.usefixtures("caching")
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
