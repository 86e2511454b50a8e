"""Defaults that depend on the data and on the base."""

from pathlib import Path
from typing import Any

import pytest

import headswap as hs
from headswap.bundle.bundle import Bundle
from headswap.core.settings import load_recipe
from headswap.defaults import POOLINGS, finetuning_rate, unfreezes_gradually, values_behind_finetuning
from headswap.finetuning.config import FinetuneRecipe
from headswap.pretraining.config import PretrainRecipe
from tiny import ONE_THREAD, SCRATCH, TINY_LAYERS, sentences

SHAPE = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16, "max_length": 24}


@pytest.mark.parametrize(
    ("tokens_per_parameter", "at_128"), [(0.0, 4.2e-4), (2.99, 8.5e-4), (3.0, 1.4e-4), (20.0, 1.4e-4), (None, 1.4e-4)]
)
def test_the_rate_depends_on_the_training_tokens_per_parameter(
    tokens_per_parameter: float | None, at_128: float
) -> None:
    assert finetuning_rate(128, tokens_per_parameter=tokens_per_parameter) == at_128


def test_the_rate_of_sufficiently_trained_bases_does_not_fall_above_width_256() -> None:
    assert [finetuning_rate(width, tokens_per_parameter=5.0) for width in (256, 512)] == [1e-4, 1e-4]
    assert finetuning_rate(512, tokens_per_parameter=0.0) == 2.1e-4


@pytest.mark.parametrize(
    ("epochs", "layers", "tokens_per_parameter", "expected"),
    [
        (20, 6, 5.0, True),
        (14, 6, None, True),
        (13.9, 6, 5.0, False),
        (3, 6, 5.0, False),
        (20, 12, 5.0, False),
        (20, 6, 2.9, False),
        (20, 6, 0.0, False),
    ],
)
def test_gradual_unfreezing_is_the_default_in_long_runs_of_well_trained_bases(
    epochs: float, layers: int, tokens_per_parameter: float | None, expected: bool
) -> None:
    assert unfreezes_gradually(epochs, layers, tokens_per_parameter=tokens_per_parameter) == expected


def test_the_recorded_training_tokens_of_a_base_determine_its_rate(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Two steps are fewer than three tokens per parameter; 250 more steps are enough."""
    (tmp_path / "corpus.txt").write_text("".join(f"{text}\n" for text, _ in sentences(60)), encoding="utf-8")
    rows = "".join(f'{{"text": "{text}", "label": "{label}"}}\n' for text, label in sentences(24))
    (tmp_path / "train.jsonl").write_text(rows, encoding="utf-8")
    given = {"vocab_size": 280, "batch_size": 4, **ONE_THREAD}
    weak = hs.pretrain(tmp_path / "corpus.txt", out=tmp_path / "weak", max_steps=2, **given, **SHAPE)
    before = Bundle.load(weak.path).tokens_trained
    assert before == pytest.approx(2 * 4 * 24, rel=0.1)
    strong = hs.adapt(weak, tmp_path / "corpus.txt", out=tmp_path / "strong", max_steps=250, batch_size=4, **ONE_THREAD)
    after = Bundle.load(strong.path).tokens_trained
    assert after == pytest.approx(before + 250 * 4 * 24, rel=0.1)
    rates = {}
    for name, base in (("weak", weak), ("strong", strong)):
        caplog.clear()
        with caplog.at_level("INFO", logger="headswap"):
            run = hs.finetune(
                base=base, train=tmp_path / "train.jsonl", out=tmp_path / f"tuned-{name}", max_steps=1, **ONE_THREAD
            )
        rates[name] = load_recipe(FinetuneRecipe, run.path / "recipe.toml").training.learning_rate
        assert ("tokens per parameter, so a higher learning rate is used" in caplog.text) == (name == "weak")
    assert rates == {
        "weak": finetuning_rate(16, tokens_per_parameter=0.5),
        "strong": finetuning_rate(16, tokens_per_parameter=4),
    }


def test_dropout_depends_on_the_number_of_epochs(corpus_file: Path, tmp_path: Path) -> None:
    def run(name: str, **settings: Any) -> hs.Run:
        defaults = {**TINY_LAYERS, "preset": "small", "num_train_epochs": 5.0, "batch_size": 64, "max_length": 16}
        return hs.pretrain(corpus_file, out=tmp_path / name, **(defaults | settings))

    def dropout_of(run: hs.Run) -> float | None:
        assert run.model.bundle.model.base.layers[0].attention.dropout == 0
        assert run.model.bundle.model.base.layers[0].dropout == run.model.bundle.model.shape.base.dropout
        return load_recipe(PretrainRecipe, run.path / "recipe.toml").model.dropout

    often = run("often")
    assert dropout_of(often) == 0.1
    assert run("the same", dropout=0.1).result["loss"] == often.result["loss"]
    assert dropout_of(run("very often", num_train_epochs=11.0)) == 0.2
    assert dropout_of(run("once", num_train_epochs=1.0)) == 0
    assert dropout_of(run("masked", objective="masked")) == 0
    assert dropout_of(run("stated", dropout=0.0)) == 0
    assert run("lab", preset="lab").model.bundle.model.shape.base.dropout == 0


def test_the_default_number_of_epochs_comes_with_early_stopping(tiny_runs: Path, tmp_path: Path) -> None:
    default = hs.finetune(out=tmp_path / "default", train=tiny_runs / "train.jsonl", **SCRATCH)
    training = load_recipe(FinetuneRecipe, default.path / "recipe.toml").training
    assert (training.num_train_epochs, training.early_stopping_patience) == (20, 5)
    best, last = default.result["best_epoch"], max(line["epoch"] for line in default.metrics() if "eval_loss" in line)
    assert last == min(20, best + 5)
    stated = hs.finetune(out=tmp_path / "stated", train=tiny_runs / "train.jsonl", num_train_epochs=1, **SCRATCH)
    assert load_recipe(FinetuneRecipe, stated.path / "recipe.toml").training.early_stopping_patience is None


def test_job_ids_of_studies_keep_the_former_name() -> None:
    assert POOLINGS["causal"] == "weighted-mean"
    assert "later" in values_behind_finetuning()
    assert "weighted-mean" not in values_behind_finetuning()
