"""The cache: equal content is built once, different content is a different entry, damaged entries are rebuilt."""

import io
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from headswap.core.errors import InputError, SettingError
from headswap.data.config import ReadSettings
from headswap.data.content_hash import cache_folder, spooled
from headswap.tokens import cache
from headswap.tokens.cache import cached_store, cached_tokenizer
from headswap.tokens.cache_entries import list_cache
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


def keys(kind: str) -> list[str]:
    return [entry.key for entry in list_cache() if entry.kind == kind]


def test_a_store_is_built_once_and_then_reused(
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


def test_settings_that_do_not_affect_reading_are_not_part_of_the_key(corpus_file: Path, tokenizer: Tokenizer) -> None:
    class Section(ReadSettings):
        corpus: str

    for name in ("one", "two"):
        section = Section(documents="line", corpus=name)
        assert cached_tokenizer([str(corpus_file)], section, TRAIN).fingerprint == tokenizer.fingerprint
        cached_store([str(corpus_file)], section, tokenizer)
    assert (len(keys("store")), len(keys("tokenizer"))) == (1, 1)


def test_different_content_options_tokenizers_and_sides_give_different_stores(
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


def test_a_changed_file_is_a_different_corpus(corpus_file: Path, tokenizer: Tokenizer) -> None:
    first = cached_store([str(corpus_file)], READ, tokenizer)
    with corpus_file.open("a") as file:
        file.write("one more line\n")
    assert cached_store([str(corpus_file)], READ, tokenizer).num_documents == first.num_documents + 1


def test_a_damaged_store_is_reported_and_built_again(
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
    monkeypatch.setattr(cache, "train_on_corpus", None)
    assert cached_tokenizer([str(corpus_file)], READ, TRAIN).fingerprint == tokenizer.fingerprint
    assert "Reused the tokenizer" in messages.text


def test_a_tokenizer_of_another_sampling_is_not_reused(
    corpus_file: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "SAMPLING", "the first bytes")
    assert cached_tokenizer([str(corpus_file)], READ, TRAIN).fingerprint == tokenizer.fingerprint
    assert len(keys("tokenizer")) == 2


def test_a_named_tokenizer_is_loaded_not_trained(corpus_file: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    tokenizer.save(tmp_path / "own.json")
    named = TokenizerSettings(tokenizer=str(tmp_path / "own.json"))
    assert cached_tokenizer([str(corpus_file)], READ, named).fingerprint == tokenizer.fingerprint
    assert len(keys("tokenizer")) == 1


def test_a_store_given_as_corpus_is_opened_with_its_tokenizer(
    corpus_file: Path, tokenizer: Tokenizer, tmp_path: Path
) -> None:
    built = cached_store([str(corpus_file)], READ, tokenizer)
    own = tmp_path / "own"
    built.folder.rename(own)
    assert cached_store([str(own)], ReadSettings(), tokenizer).folder == own
    assert cached_tokenizer([str(own)], READ, TokenizerSettings()).fingerprint == tokenizer.fingerprint
    assert keys("store") == []


def test_a_given_store_with_another_tokenizer_or_with_other_sources_is_an_error(
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


def test_all_missing_files_are_reported(tokenizer: Tokenizer) -> None:
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


def test_a_cache_that_cannot_be_written_is_an_error(corpus_file: Path, tokenizer: Tokenizer, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(SettingError, match="HEADSWAP_CACHE"):
        cached_store([str(corpus_file)], READ, tokenizer, cache_dir=tmp_path / "file")


def test_a_failed_build_leaves_nothing_behind(tokenizer: Tokenizer, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"text": "good"}\n{"text": broken\n')
    with pytest.raises(InputError, match="line 2"):
        cached_store([str(bad)], ReadSettings(), tokenizer)
    assert not (cache_folder() / "stores").exists()


def test_a_second_builder_uses_the_store_of_the_first(
    corpus_file: Path, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process finishes the same store during this build."""
    inner: list[TokenStore] = []

    def slow_build(*arguments: object, **options: object) -> TokenStore:
        monkeypatch.setattr(cache, "build_store", build_store)
        inner.append(cached_store([str(corpus_file)], READ, tokenizer))
        return build_store(*arguments, **options)

    monkeypatch.setattr(cache, "build_store", slow_build)
    outer = cached_store([str(corpus_file)], READ, tokenizer)
    assert outer.folder == inner[0].folder
    assert outer.ids.tolist() == inner[0].ids.tolist()  # the files of the first store were kept
    assert [path.name for path in outer.folder.parent.iterdir()] == [outer.folder.name]


def test_several_processes_can_build_the_same_store_at_once(corpus_file: Path, tmp_path: Path) -> None:
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
