"""How the losses and gradients of one step are computed: in eager mode, under DDP, or by replaying a CUDA graph.
sharded.py does the same with FSDP.

Each strategy has the same signature: it takes the micro-batches of this process, leaves the gradients in `.grad`, and
returns the summed losses. Seeds of dropout are a function of (seed, step, micro-batch), so a resumed run
draws the same.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from headswap.batches.batch import Batch
from headswap.core.random_streams import derive_seed
from headswap.model.text_model import TextModel
from headswap.objectives.objective import Objective
from headswap.training.config import TrainingSettings
from headswap.training.cuda_graph_steps import CapturedSteps, can_capture, pad_to_few_sizes
from headswap.training.device import Machine
from headswap.training.distributed import Processes
from headswap.training.optimizer import require_gradients
from headswap.training.parameter_groups import Optimizer


class BatchSource(Protocol):
    """Batches as a pure function of the step."""

    def micro_batches(self, step: int, *, count: int) -> list[Batch]:
        """The global batch of a step, split into at most `count` micro-batches."""


class LossModule(nn.Module):
    """A model and its objective as one module that returns a summed loss."""

    def __init__(self, model: TextModel, objective: Objective) -> None:
        super().__init__()
        self.model, self.objective = model, objective

    def forward(self, batch: Batch) -> Tensor:
        """The loss summed over the batch's targets."""
        return self.objective.loss_sum(self.model, batch)


@dataclass(frozen=True, slots=True)
class Share:
    """The micro-batches of one process in one step, and what the global batch holds."""

    batches: list[tuple[int, Batch]]
    """(number of the micro-batch in the global batch, micro-batch)."""
    num_tokens: Tensor
    num_targets_K: Tensor
    divisors: list[int]
    """Number of targets per loss over all micro-batches and processes, at least 1."""
    num_passes: int = 1
    """The largest number of micro-batches of any process."""

    @property
    def documents(self) -> tuple[int, ...]:
        """The documents that this process sees."""
        return tuple(document for _, batch in self.batches for document in batch.documents)


def own_share(everything: Sequence[Batch], processes: Processes) -> Share:
    """The micro-batches `rank`, `rank + world`, ... of a global batch; counts are summed over all processes."""
    mine = list(enumerate(everything))[processes.rank :: processes.world]
    mine = mine or [(0, everything[0].without_targets())]
    num_losses = len(everything[0].target_counts)
    counts = [(batch.num_tokens, *batch.target_counts) for _, batch in mine if any(batch.target_counts)]
    totals = processes.sum(torch.tensor(counts or [[0] * (1 + num_losses)]).sum(0))
    divisors = [max(1, number) for number in totals[1:].tolist()]  # masking may choose no token of a few short rows
    return Share(mine, totals[0], totals[1:], divisors, num_passes=-(-len(everything) // processes.world))


class Gradients(Protocol):
    """Computes the losses and gradients of one step."""

    def __call__(self, step: int, share: Share) -> Tensor:
        """The losses summed over this process's targets; the gradients of their means are in `.grad`."""

    def clip(self, max_norm: float) -> Tensor:
        """Scale the gradients to at most this norm; returns the norm before."""


class WholeGradients:
    """Gradients of whole parameters: every process has all of them."""

    module: nn.Module

    def clip(self, max_norm: float) -> Tensor:
        """As PyTorch does."""
        return nn.utils.clip_grad_norm_(list(self.module.parameters()), max_norm)


@dataclass
class EagerGradients(WholeGradients):
    """One process, eager mode. Layers that are frozen until a later step cost no backward pass."""

    module: LossModule
    optimizer: Optimizer
    machine: Machine
    seed: int

    def __call__(self, step: int, share: Share) -> Tensor:
        """Forward and backward of each micro-batch."""
        require_gradients(self.optimizer, step)
        total_K = torch.zeros(len(share.divisors), device=self.machine.device)
        for micro, batch in share.batches:
            self.machine.seed(derive_seed(self.seed, "dropout", step, micro))
            total_K = total_K + backward(self.module, batch, share.divisors, self.machine)
        require_gradients(self.optimizer)
        return total_K


@dataclass
class ParallelGradients(WholeGradients):
    """Several processes: DDP sums the gradients in the backward pass of the last micro-batch."""

    module: nn.Module
    machine: Machine
    processes: Processes
    seed: int

    def __post_init__(self) -> None:
        self.parallel = self.processes.wrap(self.module)

    def __call__(self, step: int, share: Share) -> Tensor:
        """As in eager mode; DDP averages over processes, so each loss is scaled by their number."""
        total_K = torch.zeros(len(share.divisors), device=self.machine.device)
        for position, (micro, batch) in enumerate(share.batches):
            is_last = position == len(share.batches) - 1
            self.machine.seed(derive_seed(self.seed, "dropout", step, micro))
            with nullcontext() if is_last else self.parallel.no_sync():  # type: ignore[operator]
                scale = self.processes.world
                total_K = total_K + backward(self.parallel, batch, share.divisors, self.machine, scale=scale)
        return total_K


@dataclass
class CapturedGradients(WholeGradients):
    """One process on CUDA, one micro-batch per step: a captured graph is replayed where there is one for its size."""

    module: LossModule
    machine: Machine
    seed: int

    def __post_init__(self) -> None:
        self.captured = CapturedSteps(self.module, self.machine)

    def __call__(self, step: int, share: Share) -> Tensor:
        """The batch is padded to one of a few sizes in eager mode too, so dropout draws the same either way."""
        ((micro, batch),) = share.batches
        self.machine.seed(derive_seed(self.seed, "dropout", step, micro))
        batch = pad_to_few_sizes(batch, self.module.model)
        sums_K = self.captured(batch, share.divisors)
        if sums_K is None:
            sums_K = backward(self.module, batch, share.divisors, self.machine)
        return sums_K.detach()


def backward(module: nn.Module, batch: Batch, divisors: Sequence[int], machine: Machine, *, scale: float = 1) -> Tensor:
    """Add the gradients of the mean losses to `.grad`; return the summed losses, detached."""
    with machine.autocast():
        sums_K = module(batch.to(machine.device)).reshape(-1)
    parts = [part * (scale / divisor) for part, divisor in zip(sums_K, divisors, strict=True)]
    torch.stack(parts).sum().backward()
    return sums_K.detach()


def make_gradients(
    module: LossModule,
    optimizer: Optimizer,
    settings: TrainingSettings,
    machine: Machine,
    processes: Processes,
    *,
    may_capture: bool = True,
) -> Gradients:
    """The strategy that fits the machine, the number of processes and the model."""
    if processes.is_sharded:
        from headswap.training.sharded import ShardedGradients, ShardedModule

        assert isinstance(module, ShardedModule)
        return ShardedGradients(module, machine, processes, settings.seed)
    if processes.world > 1:
        return ParallelGradients(module, machine, processes, settings.seed)
    num_micro = settings.gradient_accumulation_steps
    if may_capture and can_capture(module.model, machine, num_micro=num_micro):
        return CapturedGradients(module, machine, settings.seed)
    return EagerGradients(module, optimizer, machine, settings.seed)
