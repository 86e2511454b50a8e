"""THE loop.

`train()` yields a record after every optimizer step and does nothing else: evaluation, checkpoints and logging are
its caller's. Losses are sums over targets divided by the step's number of targets over all micro-batches and
processes. Records hold device scalars, to be read a few steps late, so the host never waits for a step. A gradient
that is not finite leaves the weights where they are; once there were more of them than `on_nan` allows (none by
default) no later step moves a weight either, until the caller sees it and stops.
"""

from collections.abc import Generator
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
from headswap.training.cuda_graph_steps import RecordedSteps, can_record, in_few_sizes
from headswap.training.device import Machine
from headswap.training.distributed import Processes
from headswap.training.optimizer import AdamW, ask_for_gradients, hold_back
from headswap.training.schedule import learning_rate_at


class BatchSource(Protocol):
    """Batches as a pure function of the step."""

    def micro_batches(self, step: int, *, count: int) -> list[Batch]:
        """The global batch of a step, cut into at most `count` micro-batches."""


class Trainee(nn.Module):
    """A model and its objective, as one module that returns a summed loss."""

    def __init__(self, model: TextModel, objective: Objective) -> None:
        super().__init__()
        self.model, self.objective = model, objective

    def forward(self, batch: Batch) -> Tensor:
        """The loss summed over the batch's targets."""
        return self.objective.loss_sum(self.model, batch)


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What one optimizer step did. Tensors are device scalars."""

    step: int
    learning_rate: float
    num_tokens: Tensor
    num_targets_K: Tensor
    """Targets of each of the objective's losses; most objectives have one."""
    losses_K: Tensor
    """Each loss a target."""
    loss: Tensor
    """Their sum, which is what is minimised."""
    grad_norm: Tensor
    is_skipped: Tensor
    """1 if this step's loss or gradient was not finite."""
    is_broken: Tensor
    """1 if there were more such steps than are allowed: the run must end."""
    documents: tuple[int, ...]


def train(
    trainee: Trainee,
    optimizer: AdamW,
    source: BatchSource,
    *,
    settings: TrainingSettings,
    machine: Machine,
    processes: Processes,
    first_step: int,
    total_steps: int,
    num_skipped: int = 0,
    may_record: bool = True,
) -> Generator[StepRecord]:
    """Steps `first_step` up to `total_steps`, one record each; `num_skipped` were skipped before."""
    parallel = processes.wrap(trainee)
    parameters = [tensor for tensor in trainee.parameters() if tensor.requires_grad]
    skipped = torch.full((), float(num_skipped), device=machine.device)
    num_micro = settings.gradient_accumulation_steps * processes.world
    is_recorded = may_record and can_record(trainee.model, machine, num_micro=num_micro)
    recorded = RecordedSteps(trainee, machine) if is_recorded else None
    # A recording, and the sums of several processes, hold the gradients of all.
    has_turns = recorded is None and processes.world == 1
    for step in range(first_step, total_steps):
        if step == first_step or not trainee.model.training:  # it may have been scored in between
            trainee.train()
        everything = source.micro_batches(step, count=num_micro)
        mine = list(enumerate(everything))[processes.rank :: processes.world]
        mine = mine or [(0, everything[0].without_targets())]
        counts = [(batch.num_tokens, *batch.target_counts) for _, batch in mine if any(batch.target_counts)]
        num_losses = len(everything[0].target_counts)
        totals = processes.sum(torch.tensor(counts or [[0] * (1 + num_losses)]).sum(0))
        num_tokens, num_targets_K = totals[0], totals[1:]
        divisors = [max(1, number) for number in num_targets_K.tolist()]  # a few short rows may hide nothing
        loss_sums_K = torch.zeros(num_losses, device=machine.device)
        if has_turns:
            ask_for_gradients(optimizer, step)
        for position, (micro, batch) in enumerate(mine):
            is_last = position == len(mine) - 1
            machine.seed(derive_seed(settings.seed, "dropout", step, micro))
            batch = in_few_sizes(batch, trainee.model) if recorded else batch
            sums_K = recorded(batch, divisors) if recorded else None
            if sums_K is None:
                with nullcontext() if is_last or processes.world == 1 else parallel.no_sync():  # type: ignore[operator]
                    with machine.autocast():
                        sums_K = parallel(batch.to(machine.device)).reshape(-1)
                    # DDP averages over processes; the sum over all targets is what is wanted.
                    parts = [part * (processes.world / divisor) for part, divisor in zip(sums_K, divisors, strict=True)]
                    torch.stack(parts).sum().backward()
            loss_sums_K = loss_sums_K + sums_K.detach()
        if has_turns:
            ask_for_gradients(optimizer)
        sums = zip(processes.sum(loss_sums_K), divisors, strict=True)
        losses_K = torch.stack([part / divisor for part, divisor in sums])
        loss = losses_K.sum()
        hold_back(optimizer, step)
        limit = settings.max_grad_norm or float("inf")
        grad_norm = nn.utils.clip_grad_norm_(parameters, limit)
        is_skipped = ((grad_norm + loss) * 0 != 0).to(skipped.dtype)  # only of finite numbers nothing is nothing
        skipped = skipped + is_skipped
        is_broken = (skipped > settings.most_skipped).to(skipped.dtype)
        learning_rate = learning_rate_at(step, total_steps, settings)
        optimizer.step(learning_rate, is_broken=torch.maximum(is_skipped, is_broken))
        optimizer.drop_gradients()
        documents = tuple(document for _, batch in mine for document in batch.documents)
        yield StepRecord(
            step, learning_rate, num_tokens, num_targets_K, losses_K, loss, grad_norm, is_skipped, is_broken, documents
        )
