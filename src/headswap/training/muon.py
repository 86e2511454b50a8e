"""Muon: momentum with an orthogonalised update, for the matrices of the layers.

The steps are those of `torch.optim.Muon` (Keller Jordan's rule), with two differences. All matrices of a group are
updated in one batched product, and the device can cancel a step. The rate is `lr_factor` times the rate of the group;
weight decay shrinks the weights by rate x decay as in AdamW, without the factor, so one value of `weight_decay` means
the same for both. That class is not used because it imports PyTorch's compiler.

Shapes: M matrices of R rows and C columns.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from headswap.training.parameter_groups import Group, Optimizer

STATE = ("momentum_buffer",)
"""State per tensor: running mean of the gradient."""
LR_FACTOR = 14.0
"""Default of the rate of the matrices relative to the rate of AdamW."""
MOMENTUM = 0.95
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5
EPSILON = 1e-7
"""Smallest norm by which an update is divided."""


class Muon(Optimizer):
    """Muon with Nesterov momentum and decoupled weight decay; the tensors of a group have the same shape."""

    def __init__(self, groups: Sequence[Group], *, lr_factor: float, dtype: torch.dtype | None = None) -> None:
        super().__init__(groups)
        self.lr_factor, self.dtype = lr_factor, dtype

    @torch.no_grad()
    def step(self, learning_rate: float, *, is_broken: Tensor) -> None:
        """Update parameters that have a gradient, unless `is_broken` (a device scalar) is 1; the host never waits."""
        for group in self.groups:
            if updated := group.with_gradient():
                self._update(group, updated, learning_rate * group.rate.lr_scale, is_broken.bool())

    def _update(self, group: Group, updated: list[Tensor], rate: float, is_broken: Tensor) -> None:
        num = group.num_matrices
        buffers = [self._buffer(tensor) for tensor in updated]
        gradients = [tensor.grad for tensor in updated if tensor.grad is not None]
        weights_MRC, momentum_MRC, gradient_MRC = (_matrices(part, num) for part in (updated, buffers, gradients))
        new_momentum_MRC = momentum_MRC.lerp(gradient_MRC, 1 - MOMENTUM)
        dtype = self.dtype or (torch.bfloat16 if weights_MRC.is_cuda else weights_MRC.dtype)
        update_MRC = orthogonalized(gradient_MRC.lerp(new_momentum_MRC, MOMENTUM), dtype)
        rows, columns = weights_MRC.shape[1:]
        scaled = rate * self.lr_factor * math.sqrt(max(1.0, rows / columns))
        new_weights_MRC = (weights_MRC * (1 - rate * group.weight_decay)).add_(update_MRC, alpha=-scaled)
        _write(updated, torch.where(is_broken, weights_MRC, new_weights_MRC), num)
        _write(buffers, torch.where(is_broken, momentum_MRC, new_momentum_MRC), num)

    def _buffer(self, tensor: Tensor) -> Tensor:
        if tensor not in self.state:
            self.state[tensor] = dict(zip(STATE, [torch.zeros_like(tensor)], strict=True))
        return self.state[tensor][STATE[0]]


def orthogonalized(matrices_MRC: Tensor, dtype: torch.dtype) -> Tensor:
    """Matrices with the same singular vectors and singular values of about 1 (.7 to 1.2), by Newton-Schulz steps."""
    is_tall = matrices_MRC.shape[1] > matrices_MRC.shape[2]
    found_MRC = matrices_MRC.to(dtype)
    if is_tall:
        found_MRC = found_MRC.mT
    found_MRC = found_MRC / found_MRC.norm(dim=(1, 2), keepdim=True).clamp(min=EPSILON)
    a, b, c = COEFFICIENTS
    for _ in range(ITERATIONS):
        gram_MRR = found_MRC @ found_MRC.mT
        polynomial_MRR = torch.baddbmm(gram_MRR, gram_MRR, gram_MRR, beta=b, alpha=c)
        found_MRC = torch.baddbmm(found_MRC, polynomial_MRR, found_MRC, beta=a)
    return found_MRC.mT if is_tall else found_MRC


def _matrices(tensors: Sequence[Tensor], num: int) -> Tensor:
    """All matrices of the tensors, `num` per tensor, in one tensor."""
    return torch.cat([tensor.unflatten(0, (num, -1)) for tensor in tensors])


def _write(tensors: Sequence[Tensor], matrices_MRC: Tensor, num: int) -> None:
    """Copy the matrices back into the tensors."""
    torch._foreach_copy_(list(tensors), [part.flatten(0, 1) for part in matrices_MRC.split(num)])
