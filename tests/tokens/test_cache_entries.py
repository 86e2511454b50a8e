"""Entries of the cache: listed by kind, and cleared."""

import os
from pathlib import Path

import pytest

from headswap.core.errors import SettingError
from headswap.core.ownership import this_computer
from headswap.data.config import ReadSettings
from headswap.data.content_hash import cache_folder
from headswap.tokens.cache import cached_store, cached_tokenizer
from headswap.tokens.cache_entries import CacheEntry, clear_cache, list_cache
from headswap.tokens.config import TokenizerSettings
from headswap.tokens.tokenizer import Tokenizer
from headswap.tokens.tokenizer_sample import PARTS_FILE, WORK

READ = ReadSettings(documents="line")
TRAIN = TokenizerSettings(vocab_size=320)


@pytest.fixture
def tokenizer(corpus_file: Path) -> Tokenizer:
    return cached_tokenizer([str(corpus_file)], READ, TRAIN)


def old(path: Path) -> Path:
    """Set an old modification time."""
    os.utime(path, (1_000_000_000, 1_000_000_000))
    return path


def test_entries_are_listed_and_cleared(corpus_file: Path, tokenizer: Tokenizer) -> None:
    store = cached_store([str(corpus_file)], READ, tokenizer)
    entries = list_cache()
    assert [entry.kind for entry in entries] == ["store", "tokenizer"]
    assert isinstance(entries[0], CacheEntry)
    assert entries[0].key == store.folder.name
    assert entries[0].num_bytes == sum(file.stat().st_size for file in store.folder.iterdir())
    assert "300 documents" in entries[0].summary
    assert entries[0].as_json()["summary"] == entries[0].summary
    assert "bpe, V = " in entries[1].summary
    assert clear_cache([entries[0].key]).num_bytes == entries[0].num_bytes
    assert [entry.kind for entry in list_cache()] == ["tokenizer"]
    assert clear_cache().num_bytes >= entries[1].num_bytes
    assert list_cache() == []
    assert clear_cache().num_bytes == 0


def test_clearing_an_unknown_key_is_an_error() -> None:
    with pytest.raises(SettingError, match="'nothing' is not in the cache"):
        clear_cache(["nothing"])


def test_clearing_removes_abandoned_entries_and_keeps_those_being_built(corpus_file: Path) -> None:
    key = "0123456789abcdef"
    left, fresh = (cache_folder() / "stores" / f".building-{name}" / key for name in ("left____", "fresh___"))
    for folder in (left, fresh):
        folder.mkdir(parents=True)
        (folder / "ids.bin").write_bytes(b"12345")
    for path in (left / "ids.bin", left, left.parent):
        old(path)
    assert list_cache() == []
    done = clear_cache()
    assert (done.num_bytes, done.being_built) == (5, ("stores/.building-fresh___",))
    assert not left.parent.exists()
    assert fresh.exists()


def test_clearing_removes_the_sample_of_a_killed_tokenizer_training() -> None:
    building = cache_folder() / "tokenizers" / ".building-left____"
    work = building / f".tmp-{2**22 + 1}.{this_computer()}-0123abcd-{WORK}"
    work.mkdir(parents=True)
    for name in (PARTS_FILE, "part-00003.npz"):
        (work / name).write_bytes(b"12345")
    for path in (*work.iterdir(), work, building):
        old(path)
    done = clear_cache()
    assert (done.num_bytes, done.foreign) == (10, ())
    assert not building.exists()


def test_rows_given_in_python_are_listed_and_cleared() -> None:
    folder = cache_folder() / "inputs"
    folder.mkdir(parents=True)
    (folder / f"{'0' * 32}.jsonl").write_text('{"text": "a", "label": "b"}\n', encoding="utf-8")
    (entry,) = list_cache()
    assert (entry.kind, entry.summary) == ("inputs", "rows given in Python")
    clear_cache()
    assert list_cache() == []
