"""AdamW: fused, with no decay on biases and norms, and unable to write a non-finite step into the weights.

Parameters that move alike are one group: a group has its share of the learning rate and the first step at which it
moves. The steps are those of `torch.optim.AdamW(fused=True)` to the bit, by the same kernel; that class loads PyTorch's
compiler when it is made, which costs each process that trains a second and 75 MB.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from headswap.training.config import TrainingSettings

STATE = ("step", "exp_avg", "exp_avg_sq")
"""What is kept of a tensor: steps, the mean of its gradients, the mean of their squares."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How a tensor moves: its share of the learning rate, and the first step at which it does."""

    share: float = 1.0
    first_step: int = 0


@dataclass(frozen=True, slots=True)
class Group:
    """Tensors that move alike."""

    tensors: list[Tensor]
    pace: Pace
    weight_decay: float


class AdamW:
    """Adam with decoupled weight decay, whose step can be called off by the device."""

    def __init__(self, groups: Sequence[Group], *, betas: tuple[float, float], epsilon: float) -> None:
        self.groups, self.betas, self.epsilon = groups, betas, epsilon
        self.state: dict[Tensor, dict[str, Tensor]] = {}
        """Of each tensor that has moved, by the names in `STATE`."""

    @torch.no_grad()
    def step(self, learning_rate: float, *, is_broken: Tensor) -> None:
        """Move what has a gradient, unless `is_broken` (a device scalar, 0 or 1) says not to; the host never waits."""
        for group in self.groups:
            if moving := [tensor for tensor in group.tensors if tensor.grad is not None]:
                states = [self._state(tensor) for tensor in moving]
                steps, means, squares = ([state[name] for state in states] for name in STATE)
                gradients = [tensor.grad for tensor in moving if tensor.grad is not None]
                torch._foreach_add_(steps, 1)
                torch._fused_adamw_(
                    moving, gradients, means, squares, [], steps, lr=learning_rate * group.pace.share,
                    beta1=self.betas[0], beta2=self.betas[1], weight_decay=group.weight_decay, eps=self.epsilon,
                    amsgrad=False, maximize=False, found_inf=is_broken,
                )  # fmt: skip
                torch._foreach_sub_(steps, [is_broken] * len(steps))

    def drop_gradients(self) -> None:
        """Of all tensors."""
        for group in self.groups:
            for tensor in group.tensors:
                tensor.grad = None

    def _state(self, tensor: Tensor) -> dict[str, Tensor]:
        if tensor not in self.state:
            made = torch.zeros((), device=tensor.device), torch.zeros_like(tensor), torch.zeros_like(tensor)
            self.state[tensor] = dict(zip(STATE, made, strict=True))
        return self.state[tensor]


def make_optimizer(model: nn.Module, settings: TrainingSettings, paces: Mapping[str, Pace] | None = None) -> AdamW:
    """One optimizer over all trainable parameters; without `paces` they all move alike."""
    groups: dict[tuple[Pace, bool], list[Tensor]] = {}
    for name, tensor in model.named_parameters():
        if tensor.requires_grad:
            pace = paces[name] if paces else Pace()
            groups.setdefault((pace, is_without_decay(name)), []).append(tensor)
    return AdamW(
        [Group(tensors, pace, 0.0 if plain else settings.weight_decay) for (pace, plain), tensors in groups.items()],
        betas=(settings.adam_beta1, settings.adam_beta2),
        epsilon=settings.adam_epsilon,
    )


def ask_for_gradients(optimizer: AdamW, step: float = math.inf) -> None:
    """Of the groups whose turn has come by this step (by default of all): nothing goes back through layers below."""
    for group in optimizer.groups:
        for tensor in group.tensors if group.pace.first_step else ():
            tensor.requires_grad_(step >= group.pace.first_step)


def hold_back(optimizer: AdamW, step: int) -> None:
    """Drop the gradients of groups whose turn has not come: neither clipping nor AdamW's memory sees them."""
    for group in optimizer.groups:
        if step < group.pace.first_step:
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
    """Put back what `optimizer_tensors` took out."""
    for name, parameter in model.named_parameters():
        keys = [key for key in STATE if f"{name}:{key}" in tensors]
        if keys:
            optimizer.state[parameter] = {key: tensors[f"{name}:{key}"].to(parameter.device) for key in keys}
