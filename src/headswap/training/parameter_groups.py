"""Groups of parameters, and what all optimizers share."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor


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
    num_matrices: int = 1
    """Matrices per tensor, one below the other: 3 for query, key and value; only Muon uses it."""

    def with_gradient(self) -> list[Tensor]:
        """The parameters that have a gradient."""
        return [tensor for tensor in self.tensors if tensor.grad is not None]


class Optimizer:
    """Updates groups of parameters. The device can cancel a step, and the host never waits for it."""

    def __init__(self, groups: Sequence[Group]) -> None:
        self.groups = groups
        self.state: dict[Tensor, dict[str, Tensor]] = {}
        """State of each tensor that was updated, by name."""

    @abstractmethod
    def step(self, learning_rate: float, *, is_broken: Tensor) -> None:
        """Update parameters that have a gradient; change nothing if `is_broken` (a device scalar) is 1."""

    def drop_gradients(self) -> None:
        """Remove the gradients of all parameters."""
        for group in self.groups:
            for tensor in group.tensors:
                tensor.grad = None
