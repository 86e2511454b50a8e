"""Which weights are trained, with which rates and from when on; adapters and merging."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import headswap as hs
from headswap.bundle.bundle import Bundle
from headswap.cli.exit_codes import run
from headswap.core.errors import SettingError
from headswap.core.settings import load_recipe
from headswap.defaults import finetuning as defaults
from headswap.finetuning.config import AdaptationSettings, FinetuneRecipe
from headswap.finetuning.layer_rates import depth_of, freeze, group_rates
from headswap.model.text_model import build_model
from tiny import ONE_THREAD, TINY_LAYERS, sentences, tiny_model_shape, write_labelled

pytestmark = pytest.mark.usefixtures("one_thread")
SHAPE = {**TINY_LAYERS, "num_hidden_layers": 3}
FINETUNE = {"num_train_epochs": 2, "learning_rate": 3e-3, **ONE_THREAD}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base of three layers, and labelled sets."""
    folder = tmp_path_factory.mktemp("adaptation")
    (folder / "corpus.txt").write_text("\n".join(text for text, _ in sentences(300)), encoding="utf-8")
    settings = {**SHAPE, "max_length": 32, "max_steps": 40, "batch_size": 8, "learning_rate": 3e-3}
    hs.pretrain(folder / "corpus.txt", out=folder / "base", device="cpu", threads=1, **settings)
    write_labelled(folder / "train.jsonl", 120)
    write_labelled(folder / "test.jsonl", 60, seed=4)
    return folder


def tuned(shared: Path, out: Path, **settings: Any) -> Any:
    files = {"train": shared / "train.jsonl", "test": shared / "test.jsonl"}
    return hs.finetune(shared / "base", out=out, **files, **{**FINETUNE, **settings})


def changed(shared: Path, run: Any) -> set[str]:
    """Tensors of the base that training changed."""
    before = load_file(shared / "base" / "bundle" / "model.safetensors")
    after = load_file(run.path / "checkpoints" / "last" / "model.safetensors")
    return {name for name in before if name.startswith("base.") and not torch.equal(before[name], after[name])}


@pytest.mark.parametrize("trainable", ["all", "head", "top-1", "biases", "lora"])
def test_only_trainable_weights_change(shared: Path, tmp_path: Path, trainable: str) -> None:
    run = tuned(shared, tmp_path / "run", trainable=trainable)
    names = changed(shared, run)
    every = {name for name in load_file(shared / "base" / "bundle" / "model.safetensors") if name.startswith("base.")}
    expected = {
        "all": every,
        "head": set(),
        "top-1": {name for name in every if ".layers.2." in name or "final_norm" in name},
        "biases": {name for name in every if name.endswith("bias")},
        "lora": set(),
    }[trainable]
    assert names <= expected
    assert len(names) >= 0.8 * len(expected)  # the bias of the keys has no gradient
    again = hs.finetune(shared / "base", out=tmp_path / "again", config=run.path / "recipe.toml")
    assert again.result["history"] == run.result["history"], "a saved recipe can be run again"
    parameters = run.result["parameters"]
    assert (parameters["trainable"] == parameters["total"]) == (trainable == "all")


def test_lora_learns_and_reloads_with_its_head(shared: Path, tmp_path: Path) -> None:
    settings = {"trainable": "lora", "num_train_epochs": 20}
    run = tuned(shared, tmp_path / "run", **settings)
    assert run.result["test"]["accuracy"] > 0.95
    texts = [text for text, _ in sentences(20, seed=8)]
    assert hs.load(run.path).predictions(texts) == run.model.predictions(texts)
    state = load_file(run.path / "bundle" / "model.safetensors")
    assert sum(name.endswith("lora_up") for name in state) == 3 * 4
    ledger = json.loads((run.path / "ledger.json").read_text())
    statuses = {row["status"] for row in ledger["tensors"] if "lora" in row["tensor"]}
    assert statuses == {"new"}


def test_a_merged_bundle_has_no_adapters_and_predicts_the_same(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tuned(shared, tmp_path / "run", trainable="lora", lora_rank=4, lora_targets=("qkv", "down"))
    assert run(["params", str(made.path), "--json"]) == 0
    account = json.loads(capsys.readouterr().out)
    head = sum(part["count"] for part in account["parts"] if part["name"].startswith("head"))
    adapters = sum(tensor.numel() for name, tensor in made.model.bundle.model.named_parameters() if "lora" in name)
    assert account["trainable"] == adapters + head < account["total"]
    assert run(["merge", str(made.path), "--out", str(tmp_path / "plain"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["largest_difference"] < 1e-4
    plain = Bundle.load(tmp_path / "plain")
    assert not any("lora" in name for name in plain.model.state_dict())
    texts = [text for text, _ in sentences(30, seed=8)]
    for first, second in zip(hs.load(plain.path).predictions(texts), made.model.predictions(texts), strict=True):
        assert first.label == second.label
        assert first.scores == pytest.approx(second.scores, abs=1e-5)
    assert run(["merge", str(tmp_path / "plain"), "--out", str(tmp_path / "again")]) == 2
    assert "no LoRA adapters" in capsys.readouterr().err
    again = ["merge", str(made.path), "--out", str(tmp_path / "plain")]
    assert run(again) == 2
    assert "replace it with --overwrite" in capsys.readouterr().err
    assert run([*again, "--overwrite"]) == 0
    assert run(["merge", str(made.path), "--out", str(shared), "--overwrite"]) == 2
    assert "'train.jsonl'" in capsys.readouterr().err
    assert (shared / "train.jsonl").exists()


def test_gradual_unfreezing_trains_one_more_layer_per_epoch(shared: Path, tmp_path: Path) -> None:
    before = load_file(shared / "base" / "bundle" / "model.safetensors")
    for epochs in (1, 2, 3):
        run = tuned(shared, tmp_path / str(epochs), unfreeze="gradual", num_train_epochs=epochs)
        depths = {depth_of(name, 3) for name in changed(shared, run)}
        assert depths == set(range(1, epochs))
    assert any(name.startswith("base.") for name in before)


@pytest.mark.parametrize(
    ("base", "settings", "unfreeze", "pooling"),
    [
        ("base", {"num_train_epochs": 8}, "gradual", "weighted-mean"),
        ("base", {"num_train_epochs": 7}, "at-once", "weighted-mean"),
        ("base", {"num_train_epochs": 8, "unfreeze": "at-once", "pooling": "mean"}, "at-once", "mean"),
        ("base", {"num_train_epochs": 8, "trainable": "lora"}, "at-once", "weighted-mean"),
        ("scratch", {"num_train_epochs": 8}, "at-once", "mean"),
        ("scratch", {"num_train_epochs": 1, "direction": "causal"}, "at-once", "weighted-mean"),
    ],
)
def test_resolved_defaults_are_saved_in_the_recipe_and_give_the_same_run_again(
    shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, base: str, settings: dict[str, Any], unfreeze: str,
    pooling: str,
) -> None:  # fmt: skip
    """With three layers, all are unfrozen four epochs after the head."""
    monkeypatch.setattr(defaults, "LEAST_TOKENS_PER_PARAMETER", 0.1)  # so that the base is sufficiently trained
    start = "scratch" if base == "scratch" else shared / "base"
    shape = {"vocab_size": 300, "max_length": 32, **SHAPE} if base == "scratch" else {}
    given = {"device": "cpu", "threads": 1, "learning_rate": 3e-3, "num_train": 32, "train": shared / "train.jsonl"}
    first = hs.finetune(start, out=tmp_path / "first", **given, **shape, **settings)
    recipe = load_recipe(FinetuneRecipe, first.path / "recipe.toml")
    assert (recipe.adaptation.unfreeze, recipe.head.pooling) == (unfreeze, pooling)
    assert first.model.bundle.model.shape.classifier.pooling == pooling
    again = hs.finetune(config=first.path / "recipe.toml", out=tmp_path / "again")
    weights = [load_file(run.path / "bundle" / "model.safetensors") for run in (first, again)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_gradual_run_that_was_stopped_resumes_bit_for_bit(shared: Path, tmp_path: Path) -> None:
    settings = {"unfreeze": "gradual", "num_train_epochs": 4, "layer_lr_decay": 0.7, "save_steps": 3}
    whole = tuned(shared, tmp_path / "whole", **settings)

    class Stop(hs.Observer):
        def on_step(self, line: dict[str, Any]) -> None:
            if line["step"] >= 12:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        tuned(shared, tmp_path / "parts", observer=Stop(), logging_steps=1, **settings)
    parts = tuned(shared, tmp_path / "parts", resume=True, logging_steps=1, **settings)
    first, second = (load_file(run.path / "checkpoints" / "last" / "model.safetensors") for run in (whole, parts))
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_lower_layers_have_lower_rates_and_the_head_a_higher_one() -> None:
    model = build_model(tiny_model_shape(head="classify"), seed=1)
    settings = AdaptationSettings(layer_lr_decay=0.5, head_lr_factor=10)
    rates = group_rates(model, settings, steps_per_epoch=7)
    assert rates["head.output.weight"].lr_scale == 10
    assert rates["base.final_norm.weight"].lr_scale == 1
    assert rates["base.layers.1.attention.qkv.weight"].lr_scale == 1
    assert rates["base.layers.0.attention.qkv.weight"].lr_scale == 0.5
    assert rates["base.embedding.weight"].lr_scale == 0.25
    assert {rate.frozen_until for rate in rates.values()} == {0}


def test_training_the_biases_of_a_base_without_biases_is_an_error() -> None:
    model = build_model(tiny_model_shape("modern", head="classify"), seed=1)
    with pytest.raises(SettingError, match="no biases"):
        freeze(model, AdaptationSettings(trainable="biases"))


def test_only_the_head_is_trained_in_the_head_epochs() -> None:
    model = build_model(tiny_model_shape("small", head="classify", num_hidden_layers=3), seed=0)

    def first_steps(**settings: Any) -> dict[int, int]:
        chosen = AdaptationSettings(layer_lr_decay=1.0, head_lr_factor=1.0, **settings)
        rates = group_rates(model, chosen, steps_per_epoch=10)
        return {depth_of(name, 3): rate.frozen_until for name, rate in rates.items()}

    assert first_steps() == {0: 0, 1: 0, 2: 0, 3: 0, 4: 0}
    assert first_steps(head_epochs=2.5) == {0: 0, 1: 25, 2: 25, 3: 25, 4: 25}
    assert first_steps(unfreeze="gradual") == {0: 0, 1: 10, 2: 20, 3: 30, 4: 40}
    assert first_steps(unfreeze="gradual", head_epochs=5) == {0: 0, 1: 50, 2: 60, 3: 70, 4: 80}
    with pytest.raises(SettingError, match="head_epochs: no effect with --trainable head"):
        AdaptationSettings(trainable="head", head_epochs=2).check(is_scratch=False)
