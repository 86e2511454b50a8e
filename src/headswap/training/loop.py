"""The training loop.

`train()` yields one record per optimizer step and does nothing else: evaluation, checkpoints and logging belong to its
caller (runner.py). How losses and gradients are computed is a strategy (gradients.py). A loss is a sum over targets,
divided by the step's number of targets over all micro-batches and processes. Records hold device scalars that are read
a few steps later, so the host never waits for a step. A step whose loss or gradient is not finite changes no weight.
Once there are more such steps than `on_nan` allows (none by default), no later step changes a weight either, until the
caller sees it and stops.
"""

from collections.abc import Generator
from dataclasses import dataclass

import torch
from torch import Tensor

from headswap.training.config import TrainingSettings
from headswap.training.device import Machine
from headswap.training.distributed import Processes
from headswap.training.gradients import BatchSource, LossModule, make_gradients, own_share
from headswap.training.optimizer import drop_frozen_gradients
from headswap.training.parameter_groups import Optimizer
from headswap.training.schedule import learning_rate_at


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What one optimizer step did. Tensors are device scalars."""

    step: int
    learning_rate: float
    num_tokens: Tensor
    num_targets_K: Tensor
    """Number of targets of each loss of the objective; most objectives have one loss."""
    losses_K: Tensor
    """Each loss, per target."""
    loss: Tensor
    """Their sum, which is minimised."""
    grad_norm: Tensor
    is_skipped: Tensor
    """1 if the loss or the gradient of this step was not finite."""
    is_broken: Tensor
    """1 if there were more such steps than allowed: the run must end."""
    documents: tuple[int, ...]


def train(
    module: LossModule,
    optimizer: Optimizer,
    source: BatchSource,
    *,
    settings: TrainingSettings,
    machine: Machine,
    processes: Processes,
    first_step: int,
    total_steps: int,
    num_skipped: int = 0,
    may_capture: bool = True,
) -> Generator[StepRecord]:
    """Steps `first_step` up to `total_steps`, one record each; `num_skipped` steps were skipped before."""
    skipped = torch.full((), float(num_skipped), device=machine.device)
    num_micro = settings.gradient_accumulation_steps * processes.world
    gradients = make_gradients(module, optimizer, settings, machine, processes, may_capture=may_capture)
    for step in range(first_step, total_steps):
        if step == first_step or not module.model.training:  # the model may have been evaluated in between
            module.train()
        share = own_share(source.micro_batches(step, count=num_micro), processes)
        loss_sums_K = processes.sum(gradients(step, share))
        losses_K = torch.stack([part / divisor for part, divisor in zip(loss_sums_K, share.divisors, strict=True)])
        loss = losses_K.sum()
        drop_frozen_gradients(optimizer, step)
        grad_norm = gradients.clip(settings.max_grad_norm or float("inf"))
        # inf * 0 and nan * 0 are nan, so this is true exactly when loss or norm is not finite.
        is_skipped = ((grad_norm + loss) * 0 != 0).to(skipped.dtype)
        skipped = skipped + is_skipped
        is_broken = (skipped > settings.most_skipped).to(skipped.dtype)
        learning_rate = learning_rate_at(step, total_steps, settings)
        optimizer.step(learning_rate, is_broken=torch.maximum(is_skipped, is_broken))
        optimizer.drop_gradients()
        yield StepRecord(
            step, learning_rate, share.num_tokens, share.num_targets_K, losses_K, loss, grad_norm, is_skipped,
            is_broken, share.documents,
        )  # fmt: skip
