"""The head of a bundle as a stock class computes it: the same scores, without a temperature or standardised targets."""

import torch
from torch import Tensor

from headswap.bundle.bundle import Bundle
from headswap.core.errors import InputError


@torch.no_grad()
def scores_folded_in(bundle: Bundle) -> dict[str, Tensor]:
    """The head's tensors, with the temperature or the mean and spread of the targets computed into its last layer.

    A cosine head stays as it is, since the length of its weights has no effect; no stock class has such a head.
    """
    tensors = {name: tensor.detach().clone() for name, tensor in bundle.model.head.state_dict().items()}
    state = bundle.task
    if bundle.model.shape.head == "lm" or bundle.model.shape.classifier.head_similarity == "cosine":
        return tensors
    scale, shift = state.target_std / state.temperature, state.target_mean
    if scale != 1:
        for name in ("output.weight", "output.bias"):
            if name in tensors:
                tensors[name] *= scale
    if shift:
        if "output.bias" not in tensors:
            raise InputError(
                f"The mean of the targets ({shift:g}) cannot be exported: the class layer of the stock class has no "
                "bias. Subtract the mean from the targets before fine-tuning."
            )
        tensors["output.bias"] += shift
    return tensors
