"""Initialisation of every tensor, with one random stream per tensor.

`lab` uses PyTorch's defaults for encoder layers and the lab's values for embedding and heads; `normal` is BERT's
N(0, 0.02); `normal_scaled` is GPT-2's, which divides the layers that write to the residual stream by sqrt(2 L). A
tensor's stream is named by the tensor, so the same seed gives the same base under any head.
"""

import math

import torch
from torch import Tensor, nn

from headswap.core.random_streams import derive_seed
from headswap.model.lora import is_adapter
from headswap.model.shape import BaseShape

NORMAL_STD = 0.02
LAB_BOUND = 0.1
RESIDUAL_WRITERS = ("attention.output.weight", "feed_forward.down.weight")


@torch.no_grad()
def initialize(model: nn.Module, shape: BaseShape, *, seed: int) -> None:
    """Initialise every parameter in place."""
    for name, tensor in model.named_parameters():
        generator = torch.Generator().manual_seed(derive_seed(seed, "init", name))
        if is_adapter(name):
            # As in PEFT: lora_down like a linear layer of PyTorch, lora_up zero.
            bound = 1.0 / math.sqrt(tensor.shape[1])
            tensor.zero_() if name.endswith("lora_up") else tensor.uniform_(-bound, bound, generator=generator)
        elif "norm." in name:
            tensor.fill_(1.0 if name.endswith("weight") else 0.0)
        elif shape.initialization == "lab":
            _initialize_as_the_lab(name, tensor, model, generator)
        elif name.endswith("bias"):
            tensor.zero_()
        else:
            scaled = shape.initialization == "normal_scaled" and name.endswith(RESIDUAL_WRITERS)
            std = NORMAL_STD / math.sqrt(2 * shape.num_hidden_layers) if scaled else NORMAL_STD
            tensor.normal_(0.0, std, generator=generator)


def _initialize_as_the_lab(name: str, tensor: Tensor, model: nn.Module, generator: torch.Generator) -> None:
    """PyTorch's `TransformerEncoderLayer` defaults; embedding and heads U(-0.1, 0.1) with bias 0."""
    in_feed_forward = ".feed_forward." in name
    if name.endswith("bias") and not in_feed_forward:
        tensor.zero_()
    elif name.endswith("qkv.weight"):
        bound = math.sqrt(6.0 / sum(tensor.shape))  # xavier_uniform_ over the joint matrix
        tensor.uniform_(-bound, bound, generator=generator)
    elif in_feed_forward or name.endswith("attention.output.weight"):
        weight = model.get_parameter(name.removesuffix("bias") + "weight") if name.endswith("bias") else tensor
        bound = 1.0 / math.sqrt(weight.shape[1])  # nn.Linear's own: kaiming_uniform_ with a = sqrt(5)
        tensor.uniform_(-bound, bound, generator=generator)
    else:
        tensor.uniform_(-LAB_BOUND, LAB_BOUND, generator=generator)
