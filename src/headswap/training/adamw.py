"""AdamW: fused; a non-finite step changes no weight.

The steps equal those of `torch.optim.AdamW(fused=True)` bit for bit, by the same kernel. That class is not used because
it imports PyTorch's compiler, which takes one second and 75 MB per training process.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from headswap.training.parameter_groups import Group, Optimizer

STATE = ("step", "exp_avg", "exp_avg_sq")
"""State per tensor: number of steps, running mean of the gradient, running mean of its square."""


class AdamW(Optimizer):
    """Adam with decoupled weight decay."""

    def __init__(self, groups: Sequence[Group], *, betas: tuple[float, float], epsilon: float) -> None:
        super().__init__(groups)
        self.betas, self.epsilon = betas, epsilon

    @torch.no_grad()
    def step(self, learning_rate: float, *, is_broken: Tensor) -> None:
        """Update parameters that have a gradient, unless `is_broken` (a device scalar) is 1; the host never waits."""
        for group in self.groups:
            if updated := group.with_gradient():
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

    def _state(self, tensor: Tensor) -> dict[str, Tensor]:
        if tensor not in self.state:
            made = torch.zeros((), device=tensor.device), torch.zeros_like(tensor), torch.zeros_like(tensor)
            self.state[tensor] = dict(zip(STATE, made, strict=True))
        return self.state[tensor]
