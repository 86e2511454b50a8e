"""Initialisation: the distributions of each preset, and one random stream per tensor."""

import pytest
import torch

from headswap.model.text_model import ModelShape, build_model
from tiny import tiny_model_shape


@torch.no_grad()
def test_initialisation_of_the_lab_preset_is_as_documented() -> None:
    model = build_model(ModelShape(base=tiny_model_shape("lab", vocab_size=5_000).base), seed=0)
    embedding, layer = model.base.embedding.weight, model.base.layers[0]
    assert embedding.abs().max() <= 0.1
    assert embedding.std().item() == pytest.approx(0.1 / 3**0.5, rel=0.02)
    assert model.head.weight is not None
    assert model.head.weight.abs().max() <= 0.1
    assert model.head.bias is not None
    assert not model.head.bias.any()
    assert not layer.attention.qkv.bias.any()
    assert not layer.attention.output.bias.any()
    assert layer.attention.qkv.weight.abs().max() == pytest.approx((6 / (4 * 32)) ** 0.5, rel=0.02)
    assert layer.feed_forward.up.weight.abs().max() == pytest.approx(32**-0.5, rel=0.02)
    assert layer.feed_forward.up.bias.any()
    assert (layer.attention_norm.weight == 1).all()


@torch.no_grad()
def test_initialisation_of_the_other_presets_is_normal_with_scaled_residual_writers() -> None:
    for preset, factor in (("gpt2-small", (2 * 2) ** -0.5), ("bert-base", 1.0)):
        base = build_model(tiny_model_shape(preset, vocab_size=5_000), seed=0).base
        assert base.embedding.weight.std().item() == pytest.approx(0.02, rel=0.02)
        assert base.layers[1].feed_forward.down.weight.std().item() == pytest.approx(0.02 * factor, rel=0.1)
        assert not base.layers[0].feed_forward.up.bias.any()


def test_the_same_seed_gives_the_same_base_under_any_head_and_another_seed_a_different_base() -> None:
    first = build_model(tiny_model_shape(head="lm"), seed=7).base.state_dict()
    second = build_model(tiny_model_shape(head="classify"), seed=7).base.state_dict()
    third = build_model(tiny_model_shape(head="lm"), seed=8).base.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["embedding.weight"], third["embedding.weight"])
