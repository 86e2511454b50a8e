"""The cache: the same content is made once, other content never passes for it, damage is mended."""

import io
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from headswap.core.errors import InputError, SettingError
from headswap.data import content_hash as content
from headswap.data.config import ReadSettings
from headswap.data.content_hash import cache_folder, corpus_hash, file_hash, spooled
from headswap.tokens import cache
from headswap.tokens.cache import cached_store, cached_tokenizer
from headswap.tokens.cache_entries import CacheEntry, clear_cache, list_cache
from headswap.tokens.config import TokenizerSettings
from headswap.tokens.store import TokenStore, build_store
from headswap.tokens.tokenizer import Tokenizer

READ = ReadSettings(documents="line")
TRAIN = TokenizerSettings(vocab_size=320)


@pytest.fixture
def tokenizer(corpus_file: Path) -> Tokenizer:
    return cached_tokenizer([str(corpus_file)], READ, TRAIN)


@pytest.fixture
def messages(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.INFO, logger="headswap")
    return caplog


def old(path: Path) -> Path:
    """Make a file look as if it had not been touched for a while."""
    os.utime(path, (1_000_000_000, 1_000_000_000))
    return path


@pytest.fixture
def remembering(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashes of files that have just changed are remembered too: the ctime of a file cannot be set to an old date."""
    monkeypatch.setattr(content, "FRESH_SECONDS", -1)


def keys(kind: str) -> list[str]:
    return [entry.key for entry in list_cache() if entry.kind == kind]


def test_the_second_time_a_store_is_reused(
    corpus_file: Path, tokenizer: Tokenizer, messages: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = cached_store([str(corpus_file)], READ, tokenizer)
    assert "Built the token store" in messages.text
    monkeypatch.setattr(cache, "build_store", None)
    second = cached_store([str(corpus_file)], READ, tokenizer)
    assert second.folder == first.folder
    assert second.ids.tolist() == first.ids.tolist()
    assert f"Reused the token store {first.folder.name} (300 documents" in messages.text


def test_a_copy_of_a_file_is_the_same_corpus(corpus_file: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere" / "other name.txt"
    copy.parent.mkdir()
    copy.write_bytes(corpus_file.read_bytes())
    first = cached_store([str(corpus_file)], READ, tokenizer)
    assert cached_store([str(copy)], READ, tokenizer).folder == first.folder
    assert cached_store([str(copy.parent)], READ, tokenizer).folder == first.folder


def test_settings_that_do_not_bear_on_the_reading_are_no_part_of_the_key(
    corpus_file: Path, tokenizer: Tokenizer
) -> None:
    class Section(ReadSettings):
        corpus: str

    for name in ("one", "two"):
        section = Section(documents="line", corpus=name)
        assert cached_tokenizer([str(corpus_file)], section, TRAIN).fingerprint == tokenizer.fingerprint
        cached_store([str(corpus_file)], section, tokenizer)
    assert (len(keys("store")), len(keys("tokenizer"))) == (1, 1)


def test_other_content_options_tokenizers_and_sides_are_other_stores(
    corpus_file: Path, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    other = tmp_path / "other.txt"
    other.write_text("a fine film\n")
    other_tokenizer = cached_tokenizer([str(corpus_file)], READ, TRAIN.changed(vocab_size=300))
    one, two = str(corpus_file), str(other)
    stores = [
        cached_store([one], READ, tokenizer),
        cached_store([two], READ, tokenizer),
        cached_store([one, two], READ, tokenizer),
        cached_store([two, one], READ, tokenizer),
        cached_store([one], ReadSettings(documents="file"), tokenizer),
        cached_store([one], READ, other_tokenizer),
        cached_store([one], READ, tokenizer, side=["word_starts"]),
    ]
    assert len({store.folder for store in stores}) == len(stores) == len(keys("store"))


def test_a_change_in_place_is_another_corpus(corpus_file: Path, tokenizer: Tokenizer) -> None:
    first = cached_store([str(corpus_file)], READ, tokenizer)
    with corpus_file.open("a") as file:
        file.write("one more line\n")
    assert cached_store([str(corpus_file)], READ, tokenizer).num_documents == first.num_documents + 1


def test_the_extension_is_part_of_the_content(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("text\none\n")
    (tmp_path / "a.csv").write_text("text\none\n")
    assert corpus_hash([str(tmp_path / "a.txt")]) != corpus_hash([str(tmp_path / "a.csv")])


def test_a_file_named_twice_counts_once_but_its_copy_counts(tmp_path: Path) -> None:
    one, two = tmp_path / "one.txt", tmp_path / "two.txt"
    one.write_text("same\n")
    two.write_text("same\n")
    (tmp_path / "sub").mkdir()
    same = tmp_path / "sub" / ".." / "one.txt"
    assert corpus_hash([str(one), str(same), str(one)]) == corpus_hash([str(one)])
    assert corpus_hash([str(one), str(two)]) != corpus_hash([str(one)])


def test_named_data_sets_count_by_their_content(corpus_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contents = {"stars": "1", "moons": "2"}
    monkeypatch.setattr(content, "is_named", lambda source: source in contents)
    monkeypatch.setattr(content, "content_hash", contents.__getitem__)
    file = str(corpus_file)
    orders = [["stars"], ["moons"], [file, "stars"], ["stars", file], ["stars", "moons"]]
    hashes = [corpus_hash(sources) for sources in orders]
    assert len(set(hashes)) == len(orders)
    contents["stars"] = "3"
    assert corpus_hash(["stars"]) != hashes[0]


def test_a_damaged_store_is_named_and_built_again(
    corpus_file: Path, tokenizer: Tokenizer, messages: pytest.LogCaptureFixture
) -> None:
    first = cached_store([str(corpus_file)], READ, tokenizer)
    ids = first.ids.tolist()
    (first.folder / "ids.bin").write_bytes(b"\0")
    again = cached_store([str(corpus_file)], READ, tokenizer)
    assert again.ids.tolist() == ids
    assert "damaged" in messages.text
    assert str(first.folder) in messages.text
    again.verify()


def test_a_damaged_tokenizer_is_trained_again(
    corpus_file: Path, tokenizer: Tokenizer, messages: pytest.LogCaptureFixture
) -> None:
    (cache_folder() / "tokenizers" / keys("tokenizer")[0] / "tokenizer.json").write_text("{")
    assert cached_tokenizer([str(corpus_file)], READ, TRAIN).fingerprint == tokenizer.fingerprint
    assert "damaged" in messages.text


def test_a_tokenizer_is_trained_once(
    corpus_file: Path, tokenizer: Tokenizer, messages: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "train_tokenizer", None)
    assert cached_tokenizer([str(corpus_file)], READ, TRAIN).fingerprint == tokenizer.fingerprint
    assert "Reused the tokenizer" in messages.text


def test_a_named_tokenizer_is_loaded_not_trained(corpus_file: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "own.json")
    named = TokenizerSettings(tokenizer=str(tmp_path / "own.json"))
    assert cached_tokenizer([str(corpus_file)], READ, named).fingerprint == tokenizer.fingerprint
    assert len(keys("tokenizer")) == 1


def test_a_store_given_as_corpus_is_opened_and_brings_its_tokenizer(
    corpus_file: Path, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    built = cached_store([str(corpus_file)], READ, tokenizer)
    own = tmp_path / "own"
    built.folder.rename(own)
    assert cached_store([str(own)], ReadSettings(), tokenizer).folder == own
    assert cached_tokenizer([str(own)], READ, TokenizerSettings()).fingerprint == tokenizer.fingerprint
    assert keys("store") == []


def test_a_given_store_of_another_tokenizer_or_among_files_is_an_error(
    corpus_file: Path, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    own = cached_store([str(corpus_file)], READ, tokenizer).folder
    other = cached_tokenizer([str(corpus_file)], READ, TRAIN.changed(vocab_size=300))
    with pytest.raises(InputError, match="built with another tokenizer"):
        cached_store([str(own)], ReadSettings(), other)
    with pytest.raises(InputError, match="cannot be mixed"):
        cached_store([str(own), str(corpus_file)], READ, tokenizer)
    with pytest.raises(InputError, match="has no side array 'word_starts'"):
        cached_store([str(own)], ReadSettings(), tokenizer, side=["word_starts"])


def test_missing_files_are_all_named(tokenizer: Tokenizer) -> None:
    with pytest.raises(InputError, match=r"(?s)nowhere1.*nowhere2"):
        cached_store(["nowhere1.txt", "nowhere2.txt"], READ, tokenizer)


def test_standard_input_can_be_used_for_tokenizer_and_store(
    corpus_file: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = corpus_file.read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    sources = spooled(["-"])
    assert cached_tokenizer(sources, READ, TRAIN).fingerprint == tokenizer.fingerprint
    assert cached_store(sources, READ, tokenizer).folder == cached_store([str(corpus_file)], READ, tokenizer).folder
    assert len(keys("stdin")) == 1


@pytest.mark.usefixtures("remembering")
def test_the_hash_of_a_file_is_remembered_until_it_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.usefixtures("remembering")
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


@pytest.mark.usefixtures("remembering")
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


@pytest.mark.usefixtures("remembering")
@pytest.mark.parametrize("broken", ["{", "[]", '{"a": 1}'])
def test_a_broken_memory_of_hashes_begins_anew(tmp_path: Path, broken: str) -> None:
    file = tmp_path / "a.txt"
    file.write_text("one")
    expected = file_hash(old(file))
    (cache_folder() / "hashes.json").write_text(broken)
    assert file_hash(file) == expected


def test_the_listing_shows_what_is_there_and_clearing_frees_it(corpus_file: Path, tokenizer: Tokenizer) -> None:
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


def test_clearing_a_key_that_is_not_there_is_a_sentence() -> None:
    with pytest.raises(SettingError, match="'nothing' is not in the cache"):
        clear_cache(["nothing"])


def test_clearing_takes_what_killed_processes_left_and_spares_what_is_being_built(corpus_file: Path) -> None:
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


def test_the_cache_lies_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADSWAP_CACHE", str(tmp_path / "own"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("HEADSWAP_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "headswap"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "headswap"


def test_a_cache_that_cannot_be_written_is_a_sentence(corpus_file: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SettingError, match="HEADSWAP_CACHE"):
        cached_store([str(corpus_file)], READ, tokenizer, cache_dir=tmp_path / "file")


def test_a_failed_build_leaves_nothing_behind(tokenizer: Tokenizer, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"text": "good"}\n{"text": broken\n')
    with pytest.raises(InputError, match="line 2"):
        cached_store([str(bad)], ReadSettings(), tokenizer)
    assert not (cache_folder() / "stores").exists()


def test_whoever_comes_second_uses_the_store_of_the_first(
    corpus_file: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process finishes the same store while this one builds."""
    inner: list[TokenStore] = []

    def slow_build(*arguments: object, **options: object) -> TokenStore:
        monkeypatch.setattr(cache, "build_store", build_store)
        inner.append(cached_store([str(corpus_file)], READ, tokenizer))
        return build_store(*arguments, **options)

    monkeypatch.setattr(cache, "build_store", slow_build)
    outer = cached_store([str(corpus_file)], READ, tokenizer)
    assert outer.folder == inner[0].folder
    assert outer.ids.tolist() == inner[0].ids.tolist()  # the first one's files were not taken away
    assert [path.name for path in outer.folder.parent.iterdir()] == [outer.folder.name]


def test_processes_that_build_the_same_store_all_end_well(corpus_file: Path, tmp_path: Path) -> None:
    program = (
        "import sys; from headswap.tokens.cache import *; from headswap.data.config import *\n"
        "read = ReadSettings(documents='line'); sources = [sys.argv[1]]\n"
        "tokenizer = cached_tokenizer(sources, read, TokenizerSettings(vocab_size=320))\n"
        "store = cached_store(sources, read, tokenizer); store.verify(); print(store.folder.name, store.num_documents)"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", program, str(corpus_file)], stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    results = [process.communicate()[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0]
    assert len(set(results)) == 1
    assert results[0].endswith(" 300\n")
    assert len(list_cache()) == 2
