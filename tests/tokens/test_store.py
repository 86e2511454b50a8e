"""Token stores: round trips on disk and in memory; damage is detected."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headswap.core.errors import InputError
from headswap.data.records import Document
from headswap.tokens import store_writer
from headswap.tokens.config import TokenizerSettings
from headswap.tokens.store import SIDE_ARRAYS, TokenStore, build_store, is_store
from headswap.tokens.tokenizer import Tokenizer
from headswap.tokens.train_tokenizer import train_tokenizer
from tiny import sentences

TEXTS = [text for text, _ in sentences(50)] + ["One. Two! café", "<eos> stays text"]


def documents(texts: list[str] = TEXTS) -> list[Document]:
    return [Document(text, "corpus.txt", line) for line, text in enumerate(texts, start=1)]


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return train_tokenizer(documents(), TokenizerSettings(vocab_size=320))


@pytest.fixture
def store(tokenizer: Tokenizer, tmp_path: Path) -> TokenStore:
    return build_store(documents(), tokenizer, tmp_path / "store", side=SIDE_ARRAYS, corpus_hash="abc")


def test_a_store_has_the_ids_and_byte_counts_of_its_documents(store: TokenStore, tokenizer: Tokenizer) -> None:
    assert store.num_documents == len(TEXTS)
    for index, text in enumerate(TEXTS):
        assert store.document(index).tolist() == tokenizer.encode(text).tolist()
        assert store.byte_counts[index] == len(text.encode())
    assert store.num_tokens == len(store.ids) == store.offsets[-1]
    assert store.num_bytes == sum(len(text.encode()) for text in TEXTS)
    assert (store.ids.dtype, store.offsets.dtype, store.byte_counts.dtype) == (np.uint16, np.int64, np.int64)


def test_side_arrays_have_one_entry_per_token(store: TokenStore, tokenizer: Tokenizer) -> None:
    marked = tokenizer.encode_batch_marked(TEXTS)
    for name in SIDE_ARRAYS:
        assert store.side(name).dtype == np.uint8
        assert store.side(name).tolist() == np.concatenate([getattr(m, name) for m in marked]).tolist()
    assert store.side("sentence_starts")[store.offsets[-3] : store.offsets[-2]].sum() == 3


def test_a_store_contains_its_tokenizer_and_a_description(store: TokenStore, tokenizer: Tokenizer) -> None:
    assert store.tokenizer().fingerprint == store.fingerprint == tokenizer.fingerprint
    meta = json.loads((store.folder / "store.json").read_text())
    assert meta["num_documents"] == len(TEXTS)
    assert meta["corpus_hash"] == "abc"
    assert all(len(array["sha256"]) == 64 for array in meta["arrays"].values())
    assert is_store(store.folder)
    assert not is_store(store.folder.parent)
    store.verify()


def test_the_size_of_encoding_batches_does_not_change_the_store(
    store: TokenStore, tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_writer, "BATCH_CHARACTERS", 70)
    assert len(list(store_writer.encoded_batches(documents(), tokenizer, ()))) > 10
    other = build_store(iter(documents()), tokenizer, tmp_path / "other", side=SIDE_ARRAYS)
    assert other.meta["arrays"] == store.meta["arrays"]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(st.text(max_size=30), min_size=1, max_size=8), size=st.integers(1, 40))
def test_any_texts_round_trip(
    tokenizer: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, texts: list[str], size: int
) -> None:
    monkeypatch.setattr(store_writer, "BATCH_CHARACTERS", size)
    if not any(texts):
        texts = ["a"]
    store = build_store(documents(texts), tokenizer, tmp_path / "store")
    assert [tokenizer.decode(store.document(i)) for i in range(store.num_documents)] == texts
    store.verify()


def test_stores_in_memory_and_on_disk_have_the_same_content(store: TokenStore, tokenizer: Tokenizer) -> None:
    counts = [len(text.encode()) for text in TEXTS]
    memory = TokenStore.from_documents(
        tokenizer.encode_batch(TEXTS), byte_counts=counts, fingerprint=tokenizer.fingerprint
    )
    assert memory.ids.tolist() == store.ids.tolist()
    assert memory.offsets.tolist() == store.offsets.tolist()
    assert memory.byte_counts.tolist() == store.byte_counts.tolist()
    assert (memory.num_documents, memory.num_tokens) == (store.num_documents, store.num_tokens)
    assert memory.document(3).tolist() == store.document(3).tolist()
    assert memory.ids.dtype == store.ids.dtype


def test_stores_in_memory_may_have_empty_documents_or_large_ids() -> None:
    store = TokenStore.from_documents([np.array([], np.int32), np.array([70_000])], fingerprint="f")
    assert (store.num_documents, store.num_tokens, store.ids.dtype) == (2, 1, np.uint32)
    assert store.document(0).tolist() == []
    assert store.document(1).tolist() == [70_000]
    assert TokenStore.from_documents([], fingerprint="f").num_documents == 0


def test_a_line_of_megabytes_is_one_document(tokenizer: Tokenizer, tmp_path: Path) -> None:
    line = "the film was fine and " * 50_000
    store = build_store([*documents(["short"]), *documents([line])], tokenizer, tmp_path / "store")
    assert store.byte_counts.tolist() == [5, len(line)]
    assert tokenizer.decode(store.document(1)) == line


def test_a_corpus_without_documents_or_tokens_is_an_error(tokenizer: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="contains no documents"):
        build_store([], tokenizer, tmp_path / "store")
    with pytest.raises(InputError, match="makes no tokens"):
        build_store(documents(["", ""]), tokenizer, tmp_path / "store")
    assert list(tmp_path.iterdir()) == []


def test_a_failed_build_does_not_change_an_existing_store(store: TokenStore, tokenizer: Tokenizer) -> None:
    def broken() -> object:
        yield from documents()
        raise InputError("broken")

    with pytest.raises(InputError, match="broken"):
        build_store(broken(), tokenizer, store.folder)
    TokenStore.open(store.folder).verify()
    assert [path.name for path in store.folder.parent.iterdir() if path.name.startswith(".tmp")] == []


def test_the_error_for_a_lone_surrogate_names_its_line(tokenizer: Tokenizer, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"corpus.txt, line 2: .*surrogate"):
        build_store(documents(["good", "bad \udc00"]), tokenizer, tmp_path / "store")


@pytest.mark.parametrize("name", ["ids", "offsets", "byte_counts", "word_starts"])
def test_a_file_of_the_wrong_size_is_an_error_at_opening(store: TokenStore, name: str) -> None:
    file = store.folder / f"{name}.bin"
    file.write_bytes(file.read_bytes()[:-1])
    with pytest.raises(InputError, match=rf"damaged: {name}.bin has"):
        TokenStore.open(store.folder)
    file.unlink()
    with pytest.raises(InputError, match=rf"damaged: {name}.bin is missing"):
        TokenStore.open(store.folder)


@pytest.mark.parametrize("name", ["ids", "offsets", "byte_counts", "sentence_starts"])
def test_a_flipped_bit_is_found_by_verify(store: TokenStore, name: str) -> None:
    file = store.folder / f"{name}.bin"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(InputError, match=rf"{name}.bin is damaged"):
        TokenStore.open(store.folder).verify()


def test_offsets_that_do_not_end_at_the_last_token_are_an_error_at_opening(store: TokenStore) -> None:
    file = store.folder / "offsets.bin"
    data = np.frombuffer(file.read_bytes(), dtype=np.int64).copy()
    data[-1] += 1
    file.write_bytes(data.tobytes())
    with pytest.raises(InputError, match="do not match"):
        TokenStore.open(store.folder)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"headswap_store": 99}, "format 99, and this headswap reads format"),
        ({"num_tokens": 1}, "do not match"),
        ({"num_documents": 1}, "do not match"),
        ({"arrays": {}}, "lacks the arrays"),
        ({"arrays": {"ids": {}, "offsets": {}, "byte_counts": {}}}, "does not describe its arrays"),
    ],
)
def test_a_changed_description_is_an_error_at_opening(store: TokenStore, change: dict, sentence: str) -> None:
    file = store.folder / "store.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(InputError, match=sentence):
        TokenStore.open(store.folder)


def test_a_folder_that_is_not_a_store_and_a_broken_description_are_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a token store"):
        TokenStore.open(tmp_path)
    (tmp_path / "store.json").write_text("{")
    with pytest.raises(InputError, match="not valid JSON"):
        TokenStore.open(tmp_path)


def test_a_different_tokenizer_in_the_folder_is_an_error(store: TokenStore) -> None:
    train_tokenizer(documents(), TokenizerSettings(vocab_size=300)).save(store.folder / "tokenizer.json")
    with pytest.raises(InputError, match="not the one the store was built with"):
        store.tokenizer()


def test_a_missing_or_unknown_side_array_is_an_error(tokenizer: Tokenizer, tmp_path: Path) -> None:
    plain = build_store(documents(), tokenizer, tmp_path / "store")
    with pytest.raises(InputError, match="has no side array 'word_starts'"):
        plain.side("word_starts")
    with pytest.raises(InputError, match="Did you mean 'word_starts'"):
        build_store(documents(), tokenizer, tmp_path / "store", side=("word_start",))
