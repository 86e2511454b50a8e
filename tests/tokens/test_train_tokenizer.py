"""Training tokenizers: deterministic results, vocabulary sizes, unusual corpora, the round trip check."""

import logging
from pathlib import Path

import pytest

from headswap.core.errors import HeadswapError, InputError, RunError, SettingError
from headswap.data.config import ReadSettings
from headswap.data.documents import read_documents
from headswap.data.records import Document
from headswap.tokens.config import TokenizerSettings
from headswap.tokens.tokenizer import Tokenizer
from headswap.tokens.train_tokenizer import check_round_trip, fitted_vocab_size, train_on_corpus, train_tokenizer
from tiny import sentences
from tiny_tokenizers import EXTRA, KINDS, trained


@pytest.mark.parametrize("kind", KINDS)
def test_training_twice_gives_the_same_fingerprint(kind: str) -> None:
    texts = [text for text, _ in sentences(200)] + EXTRA + ["Zqx jkw Ωß", "Übung ñ"]
    assert len({trained(kind, texts, vocab_size=300).fingerprint for _ in range(4)}) == 1


def test_fitted_sizes_grow_with_the_corpus_within_bounds() -> None:
    sizes = [fitted_vocab_size(num_bytes) for num_bytes in (0, 10_000, 1_000_000, 30_000_000, 10**12)]
    assert sizes == [512, 512, 3008, 16_448, 32_768]
    assert all(size % 64 == 0 for size in sizes)


def test_a_corpus_too_small_for_the_vocabulary_is_a_warning_with_the_size_reached(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, logger="headswap"):
        small = trained("bpe", ["a fine film"] * 5, vocab_size=5000)
    assert small.vocab_size < 5000
    assert f"too small for a vocabulary of 5,000: {small.vocab_size:,} reached" in caplog.text


def test_a_vocabulary_smaller_than_the_bytes_is_an_error() -> None:
    with pytest.raises(SettingError, match="vocab_size = 100 is too small for byte-level BPE"):
        trained("bpe", vocab_size=100)


@pytest.mark.parametrize("kind", ["unigram", "wordpiece"])
def test_characters_that_do_not_fit_become_unknown(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    many = ["".join(chr(0x4E00 + 40 * row + column) for column in range(40)) for row in range(20)]
    with caplog.at_level(logging.INFO, logger="headswap"):
        small = trained(kind, [*many, "the film", "the story"] * 2, vocab_size=100)
    assert small.vocab_size <= 100
    assert "different characters" in caplog.text
    assert "are unknown to this tokenizer" in caplog.text


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("texts", [["a"], ["<mask>"], ["\n"], ["é" * 300], ["a " * 60_000], ["ab" * 120_000]])
def test_unusual_corpora_can_be_trained_on(kind: str, texts: list[str]) -> None:
    tokenizer = trained(kind, texts)
    assert tokenizer.special_ids - {tokenizer.unk_id} <= tokenizer.special_ids
    check_round_trip(tokenizer, [text[:1000] for text in texts])


def test_a_corpus_without_documents_is_an_error() -> None:
    with pytest.raises(InputError, match="no text to train a tokenizer on"):
        train_tokenizer([], TokenizerSettings())


def test_above_the_limit_of_bytes_a_message_says_how_much_text_is_used(caplog: pytest.LogCaptureFixture) -> None:
    documents = [Document(f"film {number} " * 1_000, "corpus.txt", number) for number in range(100)]
    with caplog.at_level(logging.INFO, logger="headswap"):
        train_tokenizer(documents, TokenizerSettings(vocab_size=300), max_bytes=500_000)
    assert "The tokenizer is trained on 0.5 of 0.8 MB of text, spread evenly over the corpus." in caplog.text


def test_a_corpus_gives_the_tokenizer_of_its_documents(corpus_file: Path, tmp_path: Path) -> None:
    settings, read = TokenizerSettings(vocab_size=300), ReadSettings(documents="line")
    one = train_on_corpus([str(corpus_file)], read, settings, tmp_path)
    assert one.fingerprint == train_tokenizer(read_documents([str(corpus_file)], read), settings).fingerprint


def test_a_tokenizer_that_loses_text_fails_the_round_trip_check() -> None:
    class Lossy(Tokenizer):
        def decode(self, ids: object, *, show_specials: bool = False) -> str:
            return super().decode(ids, show_specials=show_specials)[:-1]

    with pytest.raises(RunError, match="does not restore its text"):
        check_round_trip(Lossy(trained("bpe")._serialised), ["a film"])
    assert issubclass(RunError, HeadswapError)


def test_training_writes_nothing_to_the_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    for kind in KINDS:
        trained(kind)
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err == ""
