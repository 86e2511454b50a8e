"""Held-out documents and the unigram entropy of a corpus."""

import math
import re
from pathlib import Path
from typing import Any

import pytest

import headswap as hs
from headswap.data.config import ReadSettings
from headswap.objectives.causal import CausalObjective
from headswap.pretraining import pretrain as pretrain_module
from headswap.pretraining.corpus import split_documents, unigram_entropy
from headswap.tokens.cache import cached_store
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
