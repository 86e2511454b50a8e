"""The optimizer of a run: AdamW, or Muon for the matrices of the layers and AdamW for everything else.

Parameters with the same learning-rate scale and the same first step form one group. Biases and norms are not decayed.
"""

import math
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from headswap.training import adamw, muon
from headswap.training.adamw import AdamW
from headswap.training.config import OptimizerSettings, TrainingSettings
from headswap.training.muon import Muon
from headswap.training.parameter_groups import Group, GroupRate, Optimizer

STATE = (*adamw.STATE, *muon.STATE)
MATRICES_PER_TENSOR = {"qkv": 3}
"""Query, key and value are three matrices in one tensor."""


class Together(Optimizer):
    """Several optimizers as one; each tensor belongs to one of them."""

    def __init__(self, parts: Sequence[Optimizer]) -> None:
        super().__init__([group for part in parts for group in part.groups])
        self.parts = parts
        for part in parts:
            part.state = self.state

    def step(self, learning_rate: float, *, is_broken: Tensor) -> None:
        """One step of each."""
        for part in self.parts:
            part.step(learning_rate, is_broken=is_broken)


def make_optimizer(
    model: nn.Module, settings: TrainingSettings, rates: Mapping[str, GroupRate] | None = None
) -> Optimizer:
    """One optimizer over all trainable parameters; without `rates` they all have the run's learning rate."""
    trainable = {name: tensor for name, tensor in model.named_parameters() if tensor.requires_grad}
    return optimizer_of(trainable, settings, rates)


def optimizer_of(
    parameters: Mapping[str, Tensor], settings: TrainingSettings, rates: Mapping[str, GroupRate] | None = None
) -> Optimizer:
    """One optimizer over tensors by the names of their parameters; the tensors may be shards of them."""
    rate_of = {name: rates[name] if rates else GroupRate() for name in parameters}
    if not isinstance(settings, OptimizerSettings) or settings.optimizer != "muon":
        return _adamw(parameters, rate_of, settings)
    matrices = {name: tensor for name, tensor in parameters.items() if is_layer_matrix(name, tensor)}
    others = {name: tensor for name, tensor in parameters.items() if name not in matrices}
    return Together([_muon(matrices, rate_of, settings), _adamw(others, rate_of, settings)])


def _adamw(parameters: Mapping[str, Tensor], rates: Mapping[str, GroupRate], settings: TrainingSettings) -> AdamW:
    groups: dict[tuple[GroupRate, bool], list[Tensor]] = {}
    for name, tensor in parameters.items():
        groups.setdefault((rates[name], is_without_decay(name)), []).append(tensor)
    return AdamW(
        [Group(tensors, rate, 0.0 if plain else settings.weight_decay) for (rate, plain), tensors in groups.items()],
        betas=(settings.adam_beta1, settings.adam_beta2),
        epsilon=settings.adam_epsilon,
    )


def _muon(matrices: Mapping[str, Tensor], rates: Mapping[str, GroupRate], settings: OptimizerSettings) -> Muon:
    groups: dict[tuple[GroupRate, int, torch.Size], list[Tensor]] = {}
    for name, tensor in matrices.items():
        num_matrices = MATRICES_PER_TENSOR.get(name.split(".")[-2], 1)
        groups.setdefault((rates[name], num_matrices, tensor.shape), []).append(tensor)
    return Muon(
        [Group(tensors, rate, settings.weight_decay, num) for (rate, num, _), tensors in groups.items()],
        lr_factor=settings.muon_lr_factor or muon.LR_FACTOR,
    )


def require_gradients(optimizer: Optimizer, step: float = math.inf) -> None:
    """Set `requires_grad` of the groups that are unfrozen at a step (by default of all), so that the backward pass
    stops above frozen layers."""
    for group in optimizer.groups:
        for tensor in group.tensors if group.rate.frozen_until else ():
            tensor.requires_grad_(step >= group.rate.frozen_until)


def drop_frozen_gradients(optimizer: Optimizer, step: int) -> None:
    """Drop the gradients of groups that are still frozen: neither clipping nor the optimizer's state may see them."""
    for group in optimizer.groups:
        if step < group.rate.frozen_until:
            for tensor in group.tensors:
                tensor.grad = None


def is_without_decay(name: str) -> bool:
    """Biases and norms are not decayed."""
    return name.endswith("bias") or "norm." in name


def is_layer_matrix(name: str, tensor: Tensor) -> bool:
    """Whether Muon updates a parameter: a matrix of a layer, neither an embedding nor part of a head."""
    return tensor.ndim == 2 and ".layers." in name


def optimizer_tensors(model: nn.Module, optimizer: Optimizer) -> dict[str, Tensor]:
    """The optimizer's state under names made of the parameters' names, for a safetensors file."""
    tensors = {}
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{name}:{key}"] = value.detach().cpu().contiguous()
    return tensors


def load_optimizer_tensors(model: nn.Module, optimizer: Optimizer, tensors: dict[str, Tensor]) -> None:
    """Restore the state that `optimizer_tensors` returned."""
    for name, parameter in model.named_parameters():
        keys = [key for key in STATE if f"{name}:{key}" in tensors]
        if keys:
            optimizer.state[parameter] = {key: tensors[f"{name}:{key}"].to(parameter.device) for key in keys}
