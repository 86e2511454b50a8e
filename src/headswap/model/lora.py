"""LoRA: trainable low-rank products added to frozen matrices.

A linear layer keeps its name and its weights and gets two narrow matrices, `lora_down` and `lora_up`. `lora_up` is
initialised to zero, so the model's outputs do not change at first. Base, adapters and head are saved together in one
bundle. `merged` adds the product to the weights and gives a plain layer with the same outputs.

Shapes: N tokens, R rank.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headswap.model.shape import LoraShape


class LoraLinear(nn.Linear):
    """A linear layer plus a product of rank R."""

    def __init__(self, in_features: int, out_features: int, *, bias: bool, rank: int, alpha: float) -> None:
        super().__init__(in_features, out_features, bias=bias)
        self.scale = alpha / rank
        self.lora_down = nn.Parameter(torch.empty(rank, in_features))
        self.lora_up = nn.Parameter(torch.empty(out_features, rank))

    def forward(self, input: Tensor) -> Tensor:
        """The sum of the layer's output and the adapter's."""
        inner_NR = F.linear(input, self.lora_down)
        return F.linear(input, self.weight, self.bias) + F.linear(inner_NR, self.lora_up * self.scale)

    @torch.no_grad()
    def merged(self) -> Tensor:
        """The weights of a plain layer with the same output, computed in float64 and rounded once."""
        product = self.lora_up.double() @ self.lora_down.double() * self.scale
        return (self.weight.double() + product).to(self.weight.dtype)


def add_adapters(layers: nn.Module, lora: LoraShape) -> None:
    """Add an adapter to every targeted matrix of the layers; the matrices keep their names."""
    for module in list(layers.modules()):
        for name in lora.targets:
            linear = getattr(module, name, None)
            if isinstance(linear, nn.Linear):
                has_bias = linear.bias is not None
                size = (linear.in_features, linear.out_features)
                setattr(module, name, LoraLinear(*size, bias=has_bias, rank=lora.rank, alpha=lora.alpha))


def is_adapter(name: str) -> bool:
    """Whether a tensor belongs to an adapter."""
    return name.endswith((".lora_down", ".lora_up"))
