"""Held-out documents and the unigram entropy of a corpus."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headswap as hs
from headswap.data.config import ReadSettings
from headswap.objectives.causal import CausalObjective
from headswap.pretraining import pretrain as pretrain_module
from headswap.pretraining.corpus import MOST_HELD_OUT_TOKENS, split_documents, unigram_entropy
from headswap.tokens.cache import cached_store
from headswap.tokens.store import TokenStore
from headswap.tokens.tokenizer import Tokenizer
from tiny import PRETRAIN


def test_held_out_documents_are_never_trained_on_and_do_not_depend_on_the_seed(
    tiny_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained, scored = [], []
    make_batch = CausalObjective.make_batch

    def spy(self: CausalObjective, pieces: Any, stream: Any) -> Any:
        into.append(set(pieces.documents.tolist()))
        return make_batch(self, pieces, stream)

    monkeypatch.setattr(CausalObjective, "make_batch", spy)
    metrics = pretrain_module.held_out_metrics

    def scoring(*arguments: Any, **named: Any) -> Any:
        nonlocal into
        into = scored[-1]
        result = metrics(*arguments, **named)
        into = trained[-1]
        return result

    monkeypatch.setattr(pretrain_module, "held_out_metrics", scoring)
    for seed in (1, 2):
        trained.append([])
        scored.append([])
        into = trained[-1]
        hs.pretrain(
            tiny_runs / "corpus.txt", out=tmp_path / str(seed), num_train_epochs=1, held_out_fraction=0.1, seed=seed,
            **PRETRAIN,
        )  # fmt: skip
    train, held_out = ([set().union(*sets[run]) for run in (0, 1)] for sets in (trained, scored))
    assert held_out[0] == held_out[1]
    assert len(held_out[0]) == 30
    assert all(not train[run] & held_out[run] for run in (0, 1))
    assert train[0] == train[1] == set(range(300)) - held_out[0], "an epoch uses every other document"


def test_a_corpus_of_one_document_has_no_held_out_loss(
    tiny_runs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "one.txt").write_text("the film was fine and the story was warm .\n")
    run = hs.pretrain(tmp_path / "one.txt", out=tmp_path / "run", max_steps=2, tokenizer=tiny_runs / "base", **PRETRAIN)
    assert run.result["loss"] is None
    assert "There is no held-out loss" in caplog.text


def test_held_out_documents_that_are_also_in_the_training_part_are_counted(
    corpus_file: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    documents = [f"document number {number} says {number * number}" for number in range(100)]
    corpus_file.write_text("\n".join(documents))
    hs.pretrain(corpus_file, out=tmp_path / "once", max_steps=1, held_out_fraction=0.1, **PRETRAIN)
    assert "held-out documents are also in" not in caplog.text
    corpus_file.write_text("\n".join(documents * 2))
    hs.pretrain(corpus_file, out=tmp_path / "twice", max_steps=1, held_out_fraction=0.1, **PRETRAIN)
    found = re.search(r"(\d+) of the (\d+) held-out documents are also in the training part", caplog.text)
    assert found is not None
    assert 15 <= int(found[1]) <= int(found[2]) == 20


def test_unigram_entropy_of_a_known_corpus(tiny_runs: Path, tmp_path: Path) -> None:
    tokenizer = Tokenizer.load(tiny_runs / "base")
    assert len(tokenizer.encode(".")) == 1
    (tmp_path / "c.txt").write_text(".\n" * 8)
    store = cached_store([str(tmp_path / "c.txt")], ReadSettings(documents="line"), tokenizer)
    assert unigram_entropy(store, tokenizer) == pytest.approx(math.log(2)), "half of the tokens are <eos>"
    train, held_out = split_documents(store, 0.25)
    assert (len(train), len(held_out)) == (6, 2)


def held_out_lengths(lengths: list[int], fraction: float = 0.01) -> list[int]:
    """Numbers of tokens of the documents that are held out, of documents with these numbers of tokens."""
    store = TokenStore.from_documents([np.zeros(length, np.int32) for length in lengths], fingerprint="x")
    train, held_out = split_documents(store, fraction)
    assert sorted([*train, *held_out]) == list(range(len(lengths)))
    return [lengths[document] for document in held_out]


@pytest.mark.parametrize("lengths", [[12, 60_000], [60_000, 12], [60_000, 70_000, 12, 80_000]])
def test_a_document_above_the_limit_is_not_held_out_if_another_one_fits(lengths: list[int]) -> None:
    assert held_out_lengths(lengths) == [12]


def test_documents_after_long_ones_are_held_out_up_to_the_limit() -> None:
    assert max(held_out_lengths([60_000] * 10 + [20_000] * 10, 0.5)) == 20_000
    assert sum(held_out_lengths([20_000] * 20, 0.5)) == 40_000
    assert held_out_lengths([MOST_HELD_OUT_TOKENS] * 3) == [MOST_HELD_OUT_TOKENS]


def test_the_shortest_document_is_held_out_if_all_are_above_the_limit() -> None:
    assert [held_out_lengths([*lengths]) for lengths in ([70_000, 60_000, 80_000], [60_000, 80_000, 70_000])] == [
        [60_000], [60_000],
    ]  # fmt: skip


def test_a_split_whose_first_document_fits_stays_as_it_was() -> None:
    lengths = [100 + number for number in range(1000)]
    first = [259, 395, 589, 622, 640, 766, 842, 1051, 1059, 1065]
    assert held_out_lengths(lengths) == first


@pytest.mark.parametrize(("words", "is_warned"), [((30, 40), False), ((1, 400), True), ((400, 1), False)])
def test_a_held_out_part_that_leaves_little_to_train_on_is_warned_of(
    words: tuple[int, int], is_warned: bool, tiny_runs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "two.txt").write_text("".join("film " * number + "\n" for number in words))
    hs.pretrain(tmp_path / "two.txt", out=tmp_path / "run", max_steps=1, tokenizer=tiny_runs / "base", **PRETRAIN)
    assert ("tokens of the corpus are held out" in caplog.text) == is_warned


def test_a_held_out_part_above_the_limit_is_warned_of(
    tiny_runs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headswap.pretraining.corpus.MOST_HELD_OUT_TOKENS", 50)
    (tmp_path / "three.txt").write_text("".join("film " * number + "\n" for number in (80, 60, 70)))
    hs.pretrain(tmp_path / "three.txt", out=tmp_path / "run", max_steps=1, tokenizer=tiny_runs / "base", **PRETRAIN)
    assert "63 of the 219 tokens of the corpus are held out" in caplog.text
