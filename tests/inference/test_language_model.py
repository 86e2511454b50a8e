"""Bits per byte: the bytes are those of the tokens that are predicted."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch

import headswap as hs
from headswap.batches.config import MaskingSettings
from headswap.data.config import ReadSettings
from headswap.inference.language_model import scored_bytes
from headswap.objectives.causal import CausalObjective
from headswap.pretraining.corpus import split_documents
from headswap.tokens.cache import cached_store
from headswap.tokens.tokenizer import Tokenizer
from tiny import PRETRAIN

LENGTH = 12


def test_bits_per_byte_of_truncated_documents_divide_by_the_bytes_of_their_kept_tokens(
    tiny_runs: Path, tmp_path: Path
) -> None:
    texts = [f"the film was fine {'and warm ' * (number % 7)}in scene {number} ." for number in range(60)]
    (tmp_path / "corpus.txt").write_text("\n".join(texts) + "\n")
    settings = PRETRAIN | {"max_length": LENGTH, "layout": "documents"}
    run = hs.pretrain(
        tmp_path / "corpus.txt", out=tmp_path / "run", tokenizer=tiny_runs / "base", max_steps=2, held_out_fraction=0.3,
        **settings,
    )  # fmt: skip
    bundle = run.model.bundle
    objective = CausalObjective(bundle.tokenizer, MaskingSettings())
    store = cached_store([str(tmp_path / "corpus.txt")], ReadSettings(), bundle.tokenizer)
    _, held_out = split_documents(store, 0.3)
    nats = num_bytes = num_cut = 0
    for document in held_out:
        ids = bundle.tokenizer.encode(texts[document])
        num_cut += max(0, len(ids) - (LENGTH - 1))
        kept = ids[: LENGTH - 1]
        num_bytes += len(bundle.tokenizer.decode(kept).encode())
        rows = objective.rows(store, np.array([document]), max_length=LENGTH, layout="documents")
        batch = objective.make_batch(rows.pieces_of([0], None), None)
        with torch.no_grad():
            nats += objective.loss_sum(bundle.model.eval(), batch).item()
    assert num_cut > 20
    assert run.result["bits_per_byte"] == pytest.approx(nats / math.log(2) / num_bytes, rel=1e-4)


def test_characters_that_are_cut_in_the_middle_are_counted_by_their_bytes(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("é 😀 film")
    assert [tokenizer.bytes_of_ids(ids[:end]) for end in (len(ids), 0)] == [len("é 😀 film".encode()), 0]
    assert tokenizer.bytes_of_ids(ids[:1]) == 1, "the tiny tokenizer knows no é: its first token is one byte of two"


def test_documents_that_fit_have_all_their_bytes(tiny_runs: Path, tokenizer: Tokenizer) -> None:
    store = cached_store([str(tiny_runs / "corpus.txt")], ReadSettings(), tokenizer)
    everything = np.arange(store.num_documents)
    for layout in ("packed", "documents"):
        rows = CausalObjective(tokenizer, MaskingSettings()).rows(store, everything, max_length=1000, layout=layout)  # type: ignore[arg-type]
        assert scored_bytes(rows, tokenizer) == store.num_bytes


def test_a_text_of_unknown_words_is_not_scored_in_silence(
    tiny_runs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An unknown token is easy to predict, and the bytes of its word count: both numbers look far too good."""
    run = hs.pretrain(tiny_runs / "corpus.txt", out=tmp_path / "run", kind="word", max_steps=2, **PRETRAIN)
    for name, word in (("known", "film"), ("unknown", "xqzw")):
        (tmp_path / f"{name}.txt").write_text(f"the film was {word} .\n" * 4)
        caplog.clear()
        run.model.evaluate(tmp_path / f"{name}.txt")
        assert ("20.0 % of the tokens are unknown to the tokenizer" in caplog.text) == (name == "unknown")
