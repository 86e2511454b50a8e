"""Golden losses: a refactoring must not change them.

This test computed them. A change that is meant to change results replaces them and states why.
"""

from pathlib import Path

import pytest

import headswap as hs
from tiny import TINY_LAYERS, write_labelled

PRETRAINING = [5.21038, 4.2239, 3.868962, 3.780501]
FINETUNING = [0.696302, 0.67789, 0.669501]


def test_losses_equal_the_golden_losses(corpus_file: Path, tmp_path: Path) -> None:
    train, test = write_labelled(tmp_path / "train.jsonl", 240), write_labelled(tmp_path / "test.jsonl", 40, seed=2)
    base = hs.pretrain(
        corpus_file, out=tmp_path / "base", preset="lab", **TINY_LAYERS, vocab_size=320, max_length=32, max_steps=30,
        batch_size=8, learning_rate=3e-3, dropout=0.1, seed=7, device="cpu", threads=2,
    )  # fmt: skip
    classifier = hs.finetune(
        base, train=train, test=test, out=tmp_path / "classifier", num_train_epochs=2, learning_rate=1e-3, seed=7,
        pooling="mean", layer_lr_decay=1.0, head_lr_factor=1.0, device="cpu", threads=2,
    )  # fmt: skip
    pretraining = [line["train_loss"] for line in base.metrics() if "train_loss" in line] + [base.result["loss"]]
    finetuning = [line["eval_loss"] for line in classifier.metrics() if "eval_loss" in line]
    assert pretraining == pytest.approx(PRETRAINING, rel=1e-4)
    assert finetuning == pytest.approx(FINETUNING, rel=1e-3)
