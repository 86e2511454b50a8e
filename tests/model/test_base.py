"""The base compared with PyTorch's encoder; its tensor names, which saved bundles depend on."""

import torch
from torch import nn

from headswap.model.base import Base
from headswap.model.initialize import initialize
from headswap.model.positions import sinusoidal_table
from headswap.model.shape import BaseShape, ModelSettings
from tiny import layout_of, tiny_shape


def torch_encoder_with_weights_of(base: Base, shape: BaseShape) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(
        shape.hidden_size,
        shape.num_attention_heads,
        shape.intermediate_size,
        dropout=0.0,
        activation="relu",
        batch_first=True,
    )
    encoder = nn.TransformerEncoder(layer, shape.num_hidden_layers, enable_nested_tensor=False)
    for ours, theirs in zip(base.layers, encoder.layers, strict=True):
        pairs = (
            (ours.attention.qkv.weight, theirs.self_attn.in_proj_weight),
            (ours.attention.qkv.bias, theirs.self_attn.in_proj_bias),
            (ours.attention.output.weight, theirs.self_attn.out_proj.weight),
            (ours.attention.output.bias, theirs.self_attn.out_proj.bias),
            (ours.feed_forward.up.weight, theirs.linear1.weight),
            (ours.feed_forward.up.bias, theirs.linear1.bias),
            (ours.feed_forward.down.weight, theirs.linear2.weight),
            (ours.feed_forward.down.bias, theirs.linear2.bias),
            (ours.attention_norm.weight, theirs.norm1.weight),
            (ours.feed_forward_norm.bias, theirs.norm2.bias),
        )
        for own, other in pairs:
            other.data.copy_(own.data)
    return encoder


@torch.no_grad()
def test_base_in_the_lab_shape_equals_torch_transformer_encoder_with_a_float_square_mask() -> None:
    shape = ModelSettings(preset="lab").shape(vocab_size=97)
    base = Base(shape)
    initialize(base, shape, seed=3)
    encoder = torch_encoder_with_weights_of(base, shape).train()  # train mode disables the fast path; dropout is 0
    ids_BS = torch.randint(0, 97, (3, 50), generator=torch.Generator().manual_seed(0))
    embedded = base.embedding(ids_BS) * 200**0.5 + sinusoidal_table(512, 200, torch.device("cpu"), torch.float32)[:50]
    square_mask = torch.full((50, 50), float("-inf")).triu(1)
    expected = encoder(embedded, mask=square_mask).flatten(0, 1)
    ours = base(ids_BS.flatten(), layout_of([50] * 3, causal=True))
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=0)


def test_tensor_names_are_those_of_saved_bundles() -> None:
    with torch.device("meta"):
        names = set(build_names("bert-base")) | set(build_names("modern"))
        assert build_names("llama") == build_names("modern")
    assert names == {
        "embedding.weight", "position_embedding.weight", "segment_embedding.weight", "embedding_norm.weight",
        "embedding_norm.bias", "final_norm.weight",
        *(f"layers.{index}.{part}" for index in range(2) for part in (
            "attention.qkv.weight", "attention.qkv.bias", "attention.output.weight", "attention.output.bias",
            "attention_norm.weight", "attention_norm.bias", "feed_forward.gate.weight", "feed_forward.up.weight",
            "feed_forward.up.bias", "feed_forward.down.weight", "feed_forward.down.bias", "feed_forward_norm.weight",
            "feed_forward_norm.bias",
        )),
    }  # fmt: skip


def build_names(preset: str) -> list[str]:
    return [name for name, _ in Base(tiny_shape(preset)).named_parameters()]
