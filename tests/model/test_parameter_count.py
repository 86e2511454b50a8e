"""Parameter counts: published numbers, and formulas that agree with the tensors."""

import itertools

import pytest
import torch

from headswap.core.errors import RunError
from headswap.model.parameter_count import count_parameters, count_parameters_of_shape, evaluate
from headswap.model.shape import PRESET_VOCAB_SIZES, PRESETS, HeadShape, LoraShape, ModelSettings
from headswap.model.text_model import ModelShape, TextModel, build_model
from tiny import OPTIONS, tiny_model_shape


@pytest.mark.parametrize(
    ("vocab_size", "head", "expected"),
    [(100, "lm", 1_008_100), (100, "classify", 988_402), (50_001, "lm", 21_018_401), (50_001, "classify", 10_968_602)],
)
def test_the_preset_lab_has_the_counts_of_the_lab(vocab_size: int, head: str, expected: int) -> None:
    base = ModelSettings(preset="lab").shape(vocab_size=vocab_size)
    num_labels = 2 if head == "classify" else None
    assert count_parameters_of_shape(base, ModelShape(base=base, head=head, num_labels=num_labels)).total == expected


def test_gpt2_small_and_bert_base_have_their_published_counts() -> None:
    gpt2 = ModelSettings(preset="gpt2-small").shape(vocab_size=PRESET_VOCAB_SIZES["gpt2-small"])
    assert count_parameters_of_shape(gpt2, None).total == 124_439_808
    assert (
        count_parameters_of_shape(gpt2, ModelShape(base=gpt2)).total == 124_439_808
    )  # the tied head has no parameters
    bert = ModelSettings(preset="bert-base").shape(vocab_size=PRESET_VOCAB_SIZES["bert-base"])
    assert count_parameters_of_shape(bert, None).total == 108_891_648  # without pooler


@pytest.mark.parametrize("preset", PRESETS)
def test_formula_and_tensors_agree_for_every_head_and_option(preset: str) -> None:
    for head, tied, hidden, pooling in itertools.product(
        ("lm", "classify"), (True, False), ("none", "tanh", "gelu"), ("mean", "mean+max")
    ):
        base = tiny_model_shape(preset, tied_head=tied).base
        num_labels = 5 if head == "classify" else None
        classifier = HeadShape(pooling=pooling, head_hidden=hidden, head_bias=tied)
        model = build_model(ModelShape(base=base, head=head, num_labels=num_labels, classifier=classifier), seed=0)
        counts = count_parameters(model)
        assert counts.total == sum(part.count for part in counts.parts)
        assert counts.total == sum(tensor.numel() for tensor in model.state_dict().values())


@pytest.mark.parametrize(("preset", "changes"), OPTIONS.values(), ids=OPTIONS)
def test_formula_and_tensors_agree_for_options_that_no_preset_has(preset: str, changes: dict[str, object]) -> None:
    shape = tiny_model_shape(preset, **changes)
    for lora in (None, LoraShape(rank=2, alpha=4)):
        model = build_model(shape.changed(lora=lora), seed=0)
        assert count_parameters(model).total == sum(tensor.numel() for tensor in model.state_dict().values())


def test_llama_has_the_parameters_of_modern() -> None:
    counts = [
        count_parameters_of_shape(ModelSettings(preset=preset).shape(vocab_size=16_000), None)
        for preset in ("modern", "llama")
    ]
    assert counts[0] == counts[1]
    assert counts[0].total == 16_000 * 512 + 6 * (4 * 512**2 + 3 * 512 * 1408 + 2 * 512) + 512


def test_a_formula_that_differs_from_the_tensors_is_an_error() -> None:
    with torch.device("meta"):
        model = TextModel(tiny_model_shape())
        model.base.layers[0].attention.output = torch.nn.Linear(32, 33)
    with pytest.raises(RunError, match="attention: the formula"):
        count_parameters(model)


def test_frozen_parameters_are_not_counted_as_trainable() -> None:
    model = build_model(tiny_model_shape(head="classify"), seed=0)
    model.base.requires_grad_(False)
    assert count_parameters(model).trainable == 3 * 32 + 3


def test_formulas_have_integers_symbols_sums_and_products_only() -> None:
    assert evaluate("L*(4*D*D + 4*D) + 0", {"L": 3, "D": 5}) == 3 * (4 * 25 + 20)
    for formula in ("D - 1", "D**2", "D / 2", "-D", "len(D)", "1.5*D"):
        with pytest.raises(ValueError, match="is not an integer, a symbol"):
            evaluate(formula, {"D": 5})
