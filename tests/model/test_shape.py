"""Shapes and presets: former names of settings."""

import json
from pathlib import Path

from headswap.bundle.bundle import Bundle
from headswap.core.manifest import write_manifest
from headswap.core.settings import load_recipe
from headswap.finetuning.config import FinetuneRecipe, HeadSettings
from headswap.model.shape import HeadShape
from headswap.model.text_model import build_model
from headswap.tokens.tokenizer import Tokenizer
from tiny import tiny_model_shape


def test_settings_and_recipes_accept_the_former_name_of_weighted_mean(tmp_path: Path) -> None:
    assert HeadShape(pooling="later").pooling == HeadSettings(pooling="later").pooling == "weighted-mean"
    assert HeadSettings().pooling is None
    recipe = tmp_path / "recipe.toml"
    recipe.write_text('verb = "finetune"\n[head]\npooling = "later"\n', encoding="utf-8")
    assert load_recipe(FinetuneRecipe, recipe).head.pooling == "weighted-mean"


def test_a_bundle_with_the_former_name_of_weighted_mean_loads_with_the_same_outputs(
    tokenizer: Tokenizer, tmp_path: Path
) -> None:
    shape = tiny_model_shape(head="classify", pooling="weighted-mean", vocab_size=tokenizer.vocab_size)
    Bundle(build_model(shape, seed=1), tokenizer, ("a", "b", "c")).save(tmp_path / "bundle")
    file = tmp_path / "bundle" / "config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    assert config["classifier"]["pooling"] == "weighted-mean"
    config["classifier"]["pooling"] = "later"
    file.write_text(json.dumps(config), encoding="utf-8")
    write_manifest(tmp_path / "bundle")
    loaded = Bundle.load(tmp_path / "bundle")
    assert loaded.model.shape.classifier.pooling == "weighted-mean"
    assert loaded.verify() == []
