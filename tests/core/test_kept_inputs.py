"""Inputs that a worker keeps: by content or file state, bounded, and only where a process asks for it."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from headswap.core.kept_inputs import Kept, file_state, keep_inputs
from headswap.data import labelled
from headswap.data.labelled import read_labelled
from headswap.data.records import Document
from headswap.study.setup import row_files
from headswap.tokens import kept_ids
from headswap.tokens.config import TokenizerSettings
from headswap.tokens.kept_ids import encode_kept
from headswap.tokens.tokenizer import Tokenizer
from headswap.tokens.train_tokenizer import train_tokenizer


@pytest.fixture
def keeping(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(kept_ids, "KEPT", Kept(10_000))
    monkeypatch.setattr(labelled, "KEPT", Kept(10_000))
    monkeypatch.setattr(row_files, "DIGESTS", Kept(10))
    keep_inputs()
    yield
    keep_inputs(False)


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every text that is encoded."""
    seen: list[str] = []
    real = Tokenizer.encode_batch

    def encode_batch(tokenizer: Tokenizer, texts: list[str]) -> list[np.ndarray]:
        seen.extend(texts)
        return real(tokenizer, texts)

    monkeypatch.setattr(Tokenizer, "encode_batch", encode_batch)
    return seen


@pytest.mark.usefixtures("keeping")
def test_a_text_is_encoded_once_per_tokenizer(tokenizer: Tokenizer, encoded: list[str]) -> None:
    texts = ["a fine day", "rain", "a fine day"]
    first, again = encode_kept(tokenizer, texts), encode_kept(tokenizer, ["rain", "snow", "a fine day"])
    assert encoded == ["a fine day", "rain", "snow"]
    assert again[0] is first[1]
    assert again[2] is first[0] is first[2]
    assert np.array_equal(again[1], tokenizer.encode("snow"))
    with pytest.raises(ValueError, match="read-only"):
        first[0][0] = 1
    documents = [Document("rain and snow", "tests", number) for number in range(3)]
    other = train_tokenizer(documents, TokenizerSettings(kind="bpe", vocab_size=270))
    encode_kept(other, ["rain"])
    assert encoded[-1] == "rain"


def test_nothing_is_kept_unless_it_is_asked_for(tokenizer: Tokenizer, encoded: list[str]) -> None:
    encode_kept(tokenizer, ["rain"])
    encode_kept(tokenizer, ["rain"])
    assert encoded == ["rain", "rain"]


@pytest.mark.usefixtures("keeping")
def test_the_oldest_entries_are_dropped_at_the_limit() -> None:
    kept: Kept[str] = Kept(10)
    for name in "abc":
        kept.add(name, name.upper(), 4)
    assert [kept.find(name) for name in "abc"] == [None, "B", "C"]
    assert kept.size == 8
    kept.add("large", "L", 11)
    assert kept.find("large") is None
    assert len(kept) == 2


@pytest.mark.usefixtures("keeping")
def test_a_file_is_read_again_when_it_has_changed(tmp_path: Path) -> None:
    file = tmp_path / "train.jsonl"

    def write(text: str) -> None:
        file.write_text(json.dumps({"text": text, "label": "x"}) + "\n", encoding="utf-8")
        os.utime(file, ns=(1, 1))  # the time of its last change stays the same

    def read() -> list[str]:
        return [one.text for one in read_labelled(str(file), text_column="text", label_column="label")]

    write("one")
    first, digest = read(), row_files._digest_of(file)
    first.append("changed by the caller")
    assert read() == ["one"]
    state = file_state(file)
    write("two")
    assert file_state(file) != state
    assert read() == ["two"]
    assert row_files._digest_of(file) != digest


@pytest.mark.usefixtures("keeping")
def test_kept_rows_are_those_of_the_same_columns(tmp_path: Path) -> None:
    file = tmp_path / "train.jsonl"
    file.write_text(json.dumps({"text": "one", "other": "two", "label": "x"}) + "\n", encoding="utf-8")
    for column, expected in (("text", "one"), ("other", "two"), ("text", "one")):
        (example,) = read_labelled(str(file), text_column=column, label_column="label")
        assert example.text == expected
