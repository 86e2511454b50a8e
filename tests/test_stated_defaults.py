"""The defaults that help texts state in words are those that the code resolves."""

import re
from typing import Any

import pytest

from headswap.cli.app import make_app
from headswap.cli.help_page import entries_of
from headswap.data.config import FEWEST_FOR_CHOOSING
from headswap.defaults import finetuning, pretraining
from headswap.defaults.pretraining import PretrainingFacts, resolve_pretraining
from headswap.finetuning.splits import MOST_FOR_CHOOSING, VALIDATION_SHARE
from headswap.model.shape import PRESET_VOCAB_SIZES, PRESETS, ModelSettings
from headswap.objectives.causal_masked import MASKED_SHARE
from headswap.pretraining.config import AdaptRecipe, PretrainRecipe
from headswap.tokens.train_tokenizer import fitted_vocab_size
from headswap.training.muon import LR_FACTOR

OTHER = "other presets"
WORDS: dict[str, Any] = {"on": True, "off": False}


def stated(verb: str, name: str) -> str:
    """What the help page of a command states as the default of a setting."""
    text = next(entry.text for entry in entries_of(make_app(), verb) if entry.name == name)
    return text.rpartition("default: ")[2].removesuffix("]")


def by_preset(text: str) -> dict[str, Any]:
    """The value per preset of `X with A and B, Y with other presets`."""
    found: dict[str, Any] = {}
    for value, names in re.findall(r"([\w.,]+) with ((?:other presets|[\w-]+(?: and [\w-]+)*))", text):
        presets = set(PRESETS) - set(found) if names == OTHER else names.split(" and ")
        plain = value.replace(",", "")
        number = float(plain) if re.fullmatch(r"[\d.]+", plain) else WORDS.get(value, value)
        found |= dict.fromkeys(presets, number)
    return found


@pytest.mark.parametrize("name", ["norm", "normalization", "final_norm", "embedding_norm", "tied_head"])
def test_shape_settings_state_the_default_of_every_preset(name: str) -> None:
    shapes = {preset: ModelSettings(preset=preset).shape(vocab_size=100) for preset in PRESETS}  # type: ignore[arg-type]
    assert by_preset(stated("pretrain", name)) == {preset: getattr(shape, name) for preset, shape in shapes.items()}


def test_vocabulary_and_dropout_of_every_preset() -> None:
    shapes = {preset: ModelSettings(preset=preset).shape(vocab_size=100) for preset in PRESETS}  # type: ignore[arg-type]
    for verb in ("params", "estimate"):
        assert by_preset(stated(verb, "vocab_size")) == PRESET_VOCAB_SIZES
    assert by_preset(stated("estimate", "dropout")) == {preset: shape.dropout for preset, shape in shapes.items()}
    lengths = {shape.max_position_embeddings for preset, shape in shapes.items() if preset != "gpt2-small"}
    assert (lengths, shapes["gpt2-small"].max_position_embeddings) == ({512}, 1024)
    assert "(gpt2-small 1024, others 512)" in stated("pretrain", "max_length")


def resolved(*, epochs: float, preset: str = "modern", **training: Any) -> tuple[Any, ...]:
    """Optimizer, learning rate, weight decay and dropout of a causal base of width 256 on a GPU."""
    recipe = PretrainRecipe(model={"preset": preset}, training=training)
    facts = PretrainingFacts(hidden_size=256, max_length=8, is_new=True, is_causal=True, is_gpu=True, epochs=epochs)
    done: Any = resolve_pretraining(recipe, facts)
    return done.training.optimizer, done.training.learning_rate, done.training.weight_decay, done.model.dropout


def test_optimizer_learning_rate_weight_decay_and_dropout_of_pretraining() -> None:
    assert stated("pretrain", "optimizer").startswith("muon with --preset modern and --objective causal on a GPU")
    assert "for more than 5 epochs" in stated("pretrain", "optimizer")
    assert stated("pretrain", "learning_rate").startswith("0.001 x sqrt(256 / width); twice that if Muon")
    assert stated("pretrain", "weight_decay").startswith("0.05; 2 if Muon")
    assert "0.1 above 4 epochs and 0.2 above 10 (0.1 if Muon" in stated("pretrain", "dropout")
    assert resolved(epochs=5.1) == ("muon", 0.002, 2.0, 0.1)
    assert resolved(epochs=5.1, optimizer="muon") == ("muon", 0.002, 2.0, 0.1)
    assert resolved(epochs=12, optimizer="adamw") == ("adamw", 0.001, 0.05, 0.2)
    assert resolved(epochs=12, optimizer="muon", weight_decay=0.1) == ("muon", 0.001, 0.1, 0.2)
    assert resolved(epochs=12, preset="small") == ("adamw", 0.001, 0.05, 0.2)
    assert resolved(epochs=5) == ("adamw", 0.001, 0.05, 0.1)
    assert resolved(epochs=4) == ("adamw", 0.001, 0.05, 0.0)
    assert stated("pretrain", "muon_lr_factor") == f"{LR_FACTOR:g}"
    assert stated("pretrain", "masked_share") == f"{MASKED_SHARE:g}"


def test_defaults_of_an_adaptation() -> None:
    facts = PretrainingFacts(hidden_size=256, max_length=8, is_new=False, is_causal=True, is_gpu=True, epochs=20.0)
    training: Any = resolve_pretraining(AdaptRecipe(), facts).training
    assert stated("adapt", "optimizer") == stated("study", "adapt.optimizer") == training.optimizer
    assert float(stated("adapt", "weight_decay")) == training.weight_decay
    assert stated("adapt", "learning_rate").startswith(f"{training.learning_rate:g} x sqrt(256 / width)")
    fewest, most = pretraining.ADAPT_EPOCHS
    assert (
        f"{pretraining.ADAPT_TOKENS // 10**6} million tokens, but at least {fewest:g} and at most {most:g}"
        in stated("adapt", "num_train_epochs")
    )


def test_defaults_of_fine_tuning() -> None:
    rates = (finetuning.FINETUNE_RATE_AT_256, finetuning.UNDERTRAINED_RATE_AT_256, finetuning.SCRATCH_RATE_AT_256)
    numbers = [float(number) for number in re.findall(r"0\.\d+", stated("finetune", "learning_rate"))]
    assert numbers == [rates[0], *rates], "the first one is also the lowest rate"
    fewest, most = finetuning.FINETUNE_EPOCHS
    wanted = f"about {finetuning.FINETUNE_STEPS:,} steps, but at least {fewest} and at most {most}"
    assert wanted in stated("finetune", "num_train_epochs")
    assert stated("finetune", "early_stopping_patience").startswith(f"{finetuning.FINETUNE_PATIENCE} if neither")
    first = int(re.findall(r"32 from ([\d,]+)", stated("finetune", "batch_size"))[0].replace(",", ""))
    assert [finetuning.finetuning_batch_size(number) for number in (first - 1, first, 2 * first)] == [16, 32, 64]
    assert stated("finetune", "hold_out_from") == str(FEWEST_FOR_CHOOSING)
    assert stated("finetune", "validation").startswith(
        f"{VALIDATION_SHARE:.0%} of the training set, at most {MOST_FOR_CHOOSING:,}".replace("%", " %")
    )
    assert f"with {finetuning.COSINE_FROM} or more labels" in stated("finetune", "head_similarity")
    assert f"with {finetuning.CLASS_MEANS_FROM} or more labels" in stated("finetune", "head_init")
    layers, width = (finetuning.SCRATCH_SETTINGS["model"][name] for name in ("num_hidden_layers", "hidden_size"))
    inner = finetuning.SCRATCH_SETTINGS["model"]["intermediate_size"]
    shape = f"{layers} layers of width {width} with feed-forward layers of width {inner}, otherwise as small;"
    assert stated("finetune", "preset").startswith(shape)
    own = {"direction": "bidirectional", "num_hidden_layers": layers, "hidden_size": width, "intermediate_size": inner}
    heads = PRESETS["small"]["num_attention_heads"]
    assert finetuning.SCRATCH_SETTINGS["model"] == own | {"num_attention_heads": heads}


@pytest.mark.parametrize("verb", ["tokenizer", "pretrain", "study"])
def test_vocabulary_of_a_new_tokenizer(verb: str) -> None:
    assert stated(verb, "vocab_size") == (
        "3 x the square root of the number of bytes of text, at least 512 and at most 32,768"
    )
    assert (fitted_vocab_size(1), fitted_vocab_size(10**12)) == (512, 32_768)
    assert fitted_vocab_size(10**6) == pytest.approx(3_000, abs=64)
