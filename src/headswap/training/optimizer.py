"""AdamW: fused, without decay on biases and norms; a non-finite step changes no weight.

Parameters with the same learning-rate scale and the same first step form one group. The steps equal those of
`torch.optim.AdamW(fused=True)` bit for bit, by the same kernel. That class is not used because it imports PyTorch's
compiler, which takes one second and 75 MB per training process.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headswap.training.config import TrainingSettings

STATE = ("step", "exp_avg", "exp_avg_sq")
"""State per tensor: number of steps, running mean of the gradient, running mean of its square."""


@dataclass(frozen=True, slots=True)
class GroupRate:
    """The learning rate of a parameter relative to the run's, and the step until which it is frozen."""

    lr_scale: float = 1.0
    frozen_until: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    """Parameters with the same rate and weight decay."""

    tensors: list[Tensor]
    rate: GroupRate
    weight_decay: float


class AdamW:
    """Adam with decoupled weight decay, whose step the device can cancel."""

    def __init__(self, groups: Sequence[Group], *, betas: tuple[float, float], epsilon: float) -> None:
        self.groups, self.betas, self.epsilon = groups, betas, epsilon
        self.state: dict[Tensor, dict[str, Tensor]] = {}
        """State of each tensor that was updated, by the names in `STATE`."""

    @torch.no_grad()
    def step(self, learning_rate: float, *, is_broken: Tensor) -> None:
        """Update parameters that have a gradient, unless `is_broken` (a device scalar) is 1; the host never waits."""
        for group in self.groups:
            if updated := [tensor for tensor in group.tensors if tensor.grad is not None]:
                states = [self._state(tensor) for tensor in updated]
                steps, means, squares = ([state[name] for state in states] for name in STATE)
                gradients = [tensor.grad for tensor in updated if tensor.grad is not None]
                torch._foreach_add_(steps, 1)
                torch._fused_adamw_(
                    updated, gradients, means, squares, [], steps, lr=learning_rate * group.rate.lr_scale,
                    beta1=self.betas[0], beta2=self.betas[1], weight_decay=group.weight_decay, eps=self.epsilon,
                    amsgrad=False, maximize=False, found_inf=is_broken,
                )  # fmt: skip
                torch._foreach_sub_(steps, [is_broken] * len(steps))

    def drop_gradients(self) -> None:
        """Remove the gradients of all parameters."""
        for group in self.groups:
            for tensor in group.tensors:
                tensor.grad = None

    def _state(self, tensor: Tensor) -> dict[str, Tensor]:
        if tensor not in self.state:
            made = torch.zeros((), device=tensor.device), torch.zeros_like(tensor), torch.zeros_like(tensor)
            self.state[tensor] = dict(zip(STATE, made, strict=True))
        return self.state[tensor]


def make_optimizer(model: nn.Module, settings: TrainingSettings, rates: Mapping[str, GroupRate] | None = None) -> AdamW:
    """One optimizer over all trainable parameters; without `rates` they all have the run's learning rate."""
    groups: dict[tuple[GroupRate, bool], list[Tensor]] = {}
    for name, tensor in model.named_parameters():
        if tensor.requires_grad:
            rate = rates[name] if rates else GroupRate()
            groups.setdefault((rate, is_without_decay(name)), []).append(tensor)
    return AdamW(
        [Group(tensors, rate, 0.0 if plain else settings.weight_decay) for (rate, plain), tensors in groups.items()],
        betas=(settings.adam_beta1, settings.adam_beta2),
        epsilon=settings.adam_epsilon,
    )


def require_gradients(optimizer: AdamW, step: float = math.inf) -> None:
    """Set `requires_grad` of the groups that are unfrozen at a step (by default of all), so that the backward pass
    stops above frozen layers."""
    for group in optimizer.groups:
        for tensor in group.tensors if group.rate.frozen_until else ():
            tensor.requires_grad_(step >= group.rate.frozen_until)


def drop_frozen_gradients(optimizer: AdamW, step: int) -> None:
    """Drop the gradients of groups that are still frozen: neither clipping nor AdamW's state may see them."""
    for group in optimizer.groups:
        if step < group.rate.frozen_until:
            for tensor in group.tensors:
                tensor.grad = None


def is_without_decay(name: str) -> bool:
    """Biases and norms are not decayed."""
    return name.endswith("bias") or "norm." in name


def optimizer_tensors(model: nn.Module, optimizer: AdamW) -> dict[str, Tensor]:
    """The optimizer's state under names made of the parameters' names, for a safetensors file."""
    tensors = {}
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{name}:{key}"] = value.detach().cpu().contiguous()
    return tensors


def load_optimizer_tensors(model: nn.Module, optimizer: AdamW, tensors: dict[str, Tensor]) -> None:
    """Restore the state that `optimizer_tensors` returned."""
    for name, parameter in model.named_parameters():
        keys = [key for key in STATE if f"{name}:{key}" in tensors]
        if keys:
            optimizer.state[parameter] = {key: tensors[f"{name}:{key}"].to(parameter.device) for key in keys}
