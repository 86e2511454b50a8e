"""Parameter counts that every report got differently."""

import itertools

import pytest
import torch

from headswap.core.errors import RunError
from headswap.model.parameter_count import account_of, account_of_shape
from headswap.model.shape import PRESET_VOCAB_SIZES, PRESETS, HeadShape, ModelSettings
from headswap.model.text_model import ModelShape, TextModel, build_model
from tiny import tiny_model_shape


@pytest.mark.parametrize(
    ("vocab_size", "head", "expected"),
    [(100, "lm", 1_008_100), (100, "classify", 988_402), (50_001, "lm", 21_018_401), (50_001, "classify", 10_968_602)],
)
def test_the_lab_has_the_labs_counts(vocab_size: int, head: str, expected: int) -> None:
    base = ModelSettings(preset="lab").shape(vocab_size=vocab_size)
    num_labels = 2 if head == "classify" else None
    assert account_of_shape(base, ModelShape(base=base, head=head, num_labels=num_labels)).total == expected


def test_gpt2_small_and_bert_base_have_their_published_counts() -> None:
    gpt2 = ModelSettings(preset="gpt2-small").shape(vocab_size=PRESET_VOCAB_SIZES["gpt2-small"])
    assert account_of_shape(gpt2, None).total == 124_439_808
    assert account_of_shape(gpt2, ModelShape(base=gpt2)).total == 124_439_808  # tied: the head adds nothing
    bert = ModelSettings(preset="bert-base").shape(vocab_size=PRESET_VOCAB_SIZES["bert-base"])
    assert account_of_shape(bert, None).total == 108_891_648  # without pooler


@pytest.mark.parametrize("preset", PRESETS)
def test_formula_and_tensors_agree_for_every_head_and_option(preset: str) -> None:
    for head, tied, hidden, pooling in itertools.product(
        ("lm", "classify"), (True, False), ("none", "tanh"), ("mean", "mean+max")
    ):
        base = tiny_model_shape(preset, tied_head=tied).base
        num_labels = 5 if head == "classify" else None
        classifier = HeadShape(pooling=pooling, head_hidden=hidden, head_bias=tied)
        model = build_model(ModelShape(base=base, head=head, num_labels=num_labels, classifier=classifier), seed=0)
        account = account_of(model)
        assert account.total == sum(part.count for part in account.parts)
        assert account.total == sum(tensor.numel() for tensor in model.state_dict().values())


def test_a_formula_that_does_not_fit_the_tensors_is_an_error() -> None:
    with torch.device("meta"):
        model = TextModel(tiny_model_shape())
        model.base.layers[0].attention.output = torch.nn.Linear(32, 33)
    with pytest.raises(RunError, match="attention: the formula"):
        account_of(model)


def test_frozen_parameters_are_not_counted_as_trainable() -> None:
    model = build_model(tiny_model_shape(head="classify"), seed=0)
    model.base.requires_grad_(False)
    assert account_of(model).trainable == 3 * 32 + 3
