"""LoRA layers: zero at first, merged without a change of outputs, added only where wanted."""

import pytest
import torch
from torch import nn

from headswap.model.lora import LoraLinear, add_adapters, is_adapter
from headswap.model.shape import LoraShape


def layer(*, bias: bool = True) -> LoraLinear:
    torch.manual_seed(0)
    made = LoraLinear(6, 4, bias=bias, rank=2, alpha=8.0)
    nn.init.normal_(made.lora_down)
    nn.init.normal_(made.lora_up)
    return made


def test_a_product_with_a_zero_matrix_leaves_the_outputs_of_the_layer() -> None:
    made = layer()
    nn.init.zeros_(made.lora_up)
    input_ND = torch.randn(5, 6)
    assert torch.equal(made(input_ND), nn.functional.linear(input_ND, made.weight, made.bias))


@pytest.mark.parametrize("bias", [True, False])
def test_merged_weights_compute_the_same_outputs_with_the_scale_alpha_per_rank(bias: bool) -> None:
    made = layer(bias=bias)
    input_ND = torch.randn(5, 6)
    plain = nn.functional.linear(input_ND, made.merged(), made.bias)
    torch.testing.assert_close(made(input_ND), plain)
    expected = made.weight + 4 * made.lora_up @ made.lora_down
    torch.testing.assert_close(made.merged(), expected)


def test_adapters_are_added_to_targeted_matrices_only_and_keep_their_names() -> None:
    layers = nn.ModuleList([nn.ModuleDict({"up": nn.Linear(6, 4, bias=False), "down": nn.Linear(4, 6)})])
    before = set(layers.state_dict())
    add_adapters(layers, LoraShape(rank=3, alpha=6.0, targets=("up",)))
    added = set(layers.state_dict()) - before
    assert added == {"0.up.lora_down", "0.up.lora_up"}
    assert before <= set(layers.state_dict())
    assert {name for name in layers.state_dict() if is_adapter(name)} == added
    assert layers[0]["up"].bias is None  # type: ignore[index]
