"""Pre-training and adaptation from end to end, on the small grammar."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import headswap as hs
from headswap.core.errors import InputError, SettingError
from headswap.defaults.pretraining import adaptation_epochs
from tiny import ONE_THREAD, PRETRAIN


def test_the_run_folder_has_all_documented_files_and_results(tiny_base: hs.Run) -> None:
    assert {entry.name for entry in tiny_base.path.iterdir()} == {
        "recipe.toml", "environment.json", "data.json", "metrics.jsonl", "checkpoints", "bundle", "result.json",
    }  # fmt: skip
    assert {"loss", "perplexity", "bits_per_byte", "references", "epochs", "steps", "tokens", "seconds",
            "tokens_per_second", "peak_memory_bytes", "device"} <= set(tiny_base.result)  # fmt: skip
    assert (tiny_base.path / "checkpoints" / "last" / "model.safetensors").is_file()
    assert tiny_base.result["steps"] == 30
    assert math.exp(tiny_base.result["loss"]) == pytest.approx(tiny_base.result["perplexity"])
    environment = json.loads((tiny_base.path / "environment.json").read_text())
    assert environment["threads"] == 1
    assert environment["versions"]["torch"]
    assert environment["seed"] == 42


def test_the_held_out_loss_is_far_below_that_of_a_uniform_prediction(tiny_base: hs.Run) -> None:
    references = tiny_base.result["references"]
    assert references["ln_vocabulary"] == pytest.approx(math.log(tiny_base.model.bundle.tokenizer.vocab_size))
    assert references["unigram_entropy"] < references["ln_vocabulary"]
    assert tiny_base.result["loss"] < references["ln_vocabulary"] - 1


def test_metrics_have_training_and_held_out_loss_by_step(tiny_base: hs.Run) -> None:
    train = [line for line in tiny_base.metrics() if "train_loss" in line]
    held_out = [line for line in tiny_base.metrics() if "eval_loss" in line]
    assert [line["step"] for line in train] == [5, 10, 15, 20, 25, 30]
    assert held_out[0]["step"] == 0, "there is an evaluation before the first step"
    assert held_out[-1]["step"] == 30
    assert train[-1]["train_loss"] < train[0]["train_loss"]
    assert all(isinstance(line["sample"], str) for line in held_out)
    assert train[-1]["tokens"] == tiny_base.result["tokens"]


@pytest.mark.parametrize("limit", [{"num_train_epochs": 0.3}, {"max_tokens": 900}, {"max_steps": 5}])
def test_a_saved_recipe_makes_the_same_run_again(tiny_runs: Path, tmp_path: Path, limit: dict[str, Any]) -> None:
    first = hs.pretrain(tiny_runs / "corpus.txt", out=tmp_path / "first", **PRETRAIN, **limit)
    second = hs.pretrain(config=first.path / "recipe.toml", out=tmp_path / "second")
    assert (first.path / "recipe.toml").read_bytes() == (second.path / "recipe.toml").read_bytes()
    weights = [load_file(run.path / "bundle" / "model.safetensors") for run in (first, second)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_adapting_with_a_mistyped_reference_leaves_the_old_run(
    tiny_base: hs.Run, tiny_runs: Path, tmp_path: Path
) -> None:
    settings = {"max_steps": 1, **ONE_THREAD, "out": tmp_path / "run"}
    run = hs.adapt(tiny_base, tiny_runs / "corpus.txt", **settings)
    before = {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()}
    with pytest.raises(InputError, match=r"corpsu\.txt does not exist"):
        hs.adapt(
            tiny_base, tiny_runs / "corpus.txt", reference=str(tiny_runs / "corpsu.txt"), overwrite=True, **settings
        )
    assert {path: path.read_bytes() for path in run.path.rglob("*") if path.is_file()} == before


def test_an_adaptation_keeps_the_last_weights_or_those_with_the_lowest_held_out_loss(
    tiny_base: hs.Run, tiny_runs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A rate at which the loss rises again: the best weights are those of an earlier evaluation."""
    settings = {"max_steps": 12, "eval_steps": 2, "learning_rate": 1.0, "lr_scheduler_type": "constant", **ONE_THREAD}
    best = hs.adapt(tiny_base, tiny_runs / "corpus.txt", out=tmp_path / "best", load_best_model_at_end=True, **settings)
    losses = {line["step"]: line["eval_loss"] for line in best.metrics() if "eval_loss" in line and line["step"]}
    lowest = min(losses, key=losses.__getitem__)
    assert lowest < 12, "the test shows something"
    assert best.result["loss"] == losses[lowest]
    assert "are kept: their held-out loss is lowest" in caplog.text
    caplog.clear()
    once = {**settings, "eval_steps": 12, "load_best_model_at_end": True}
    worse = hs.adapt(tiny_base, tiny_runs / "corpus.txt", out=tmp_path / "worse", **once)
    assert worse.result["loss"] > worse.result["before"]["loss"], "the test shows something"
    assert "no evaluation was better than the base" in caplog.text
    last = hs.adapt(tiny_base, tiny_runs / "corpus.txt", out=tmp_path / "last", **settings)
    assert last.result["loss"] == losses[12]
    weights = [load_file(run.path / "bundle" / "model.safetensors") for run in (best, last)]
    assert any(not torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
    kept = load_file(best.path / "checkpoints" / f"best-{lowest:08d}" / "model.safetensors")
    assert all(torch.equal(kept[name], weights[0][name]) for name in kept)


def test_an_adaptation_without_a_limit_reads_short_text_thirty_times(
    tiny_base: hs.Run, tiny_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headswap.defaults.pretraining.ADAPT_TOKENS", 1)
    once = hs.adapt(tiny_base, tiny_runs / "corpus.txt", out=tmp_path / "once", batch_size=64, **ONE_THREAD)
    assert once.result["epochs"] == pytest.approx(1.0, abs=0.3)
    assert adaptation_epochs(10) == 1.0
    monkeypatch.undo()
    assert [adaptation_epochs(tokens) for tokens in (1_000, 20_000_000, 400_000_000)] == [30.0, 2.5, 1.0]


def test_a_misspelt_setting_is_an_error_with_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"learning_rat is not a setting. Did you mean 'learning_rate'"):
        hs.pretrain("corpus.txt", out=tmp_path / "run", learning_rat=1)
