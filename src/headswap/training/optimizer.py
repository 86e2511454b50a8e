"""AdamW: fused, with no decay on biases and norms, and unable to write a non-finite step into the weights.

Parameters that move alike are one group: a group has its share of the learning rate and the first step at which it
moves.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headswap.training.config import TrainingSettings


@dataclass(frozen=True, slots=True)
class Pace:
    """How a tensor moves: its share of the learning rate, and the first step at which it does."""

    share: float = 1.0
    first_step: int = 0


def make_optimizer(
    model: nn.Module, settings: TrainingSettings, paces: Mapping[str, Pace] | None = None
) -> torch.optim.AdamW:
    """One optimizer over all trainable parameters; without `paces` they all move alike."""
    groups: dict[tuple[Pace, bool], list[Tensor]] = {}
    for name, tensor in model.named_parameters():
        if tensor.requires_grad:
            pace = paces[name] if paces else Pace()
            groups.setdefault((pace, is_without_decay(name)), []).append(tensor)
    # Decayed weights come first, so that a run with one pace sums in the order it always did.
    ordered = sorted(groups.items(), key=lambda item: (item[0][1], item[0][0].first_step, -item[0][0].share))
    return torch.optim.AdamW(
        [_group(tensors, pace, 0.0 if plain else settings.weight_decay) for (pace, plain), tensors in ordered],
        lr=0.0,
        betas=(settings.adam_beta1, settings.adam_beta2),
        eps=settings.adam_epsilon,
        fused=True,
    )


def _group(tensors: list[Tensor], pace: Pace, weight_decay: float) -> dict[str, Any]:
    return {"params": tensors, "weight_decay": weight_decay, "share": pace.share, "first_step": pace.first_step}


def ask_for_gradients(optimizer: torch.optim.AdamW, step: float = math.inf) -> None:
    """Of the groups whose turn has come by this step (by default of all): nothing goes back through layers below."""
    for group in optimizer.param_groups:
        for tensor in group["params"] if group["first_step"] else ():
            tensor.requires_grad_(step >= group["first_step"])


def hold_back(optimizer: torch.optim.AdamW, step: int) -> None:
    """Drop the gradients of groups whose turn has not come: neither clipping nor AdamW's memory sees them."""
    for group in optimizer.param_groups:
        if step < group["first_step"]:
            for tensor in group["params"]:
                tensor.grad = None


def is_without_decay(name: str) -> bool:
    """Biases and norms are not decayed."""
    return name.endswith("bias") or "norm." in name


def guarded_step(optimizer: torch.optim.AdamW, learning_rate: float, *, is_broken: Tensor) -> None:
    """Step, unless `is_broken` (a device scalar, 0 or 1) says that a gradient was not finite; the host never waits."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate * group["share"]
    optimizer.found_inf = is_broken  # type: ignore[attr-defined]
    optimizer.grad_scale = None  # type: ignore[attr-defined]
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.AdamW) -> dict[str, Tensor]:
    """The optimizer's state under names made of the parameters' names, for a safetensors file."""
    tensors = {}
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{name}:{key}"] = value.detach().cpu().contiguous()
    return tensors


def load_optimizer_tensors(model: nn.Module, optimizer: torch.optim.AdamW, tensors: dict[str, Tensor]) -> None:
    """Put back what `optimizer_tensors` took out."""
    for name, parameter in model.named_parameters():
        keys = [key for key in ("step", "exp_avg", "exp_avg_sq") if f"{name}:{key}" in tensors]
        if keys:
            optimizer.state[parameter] = {key: tensors[f"{name}:{key}"].to(parameter.device) for key in keys}
