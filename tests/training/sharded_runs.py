"""Trainings in float64 by one process and by several with FSDP; writes their losses, norms and weights.

A script: `python sharded_runs.py FOLDER DEVICE`. Each case is one file per number of processes,
`CASE-WORLD.safetensors`; world 0 is a run without FSDP.
"""

import sys
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor

from forked import run_forks
from headswap.batches.batch import Batch
from headswap.finetuning.config import AdaptationSettings
from headswap.finetuning.layer_rates import freeze
from headswap.model.shape import LoraShape
from headswap.model.text_model import TextModel, build_model
from headswap.objectives.objective import Objective
from headswap.training.config import MachineSettings, OptimizerSettings
from headswap.training.device import Machine
from headswap.training.distributed import start_processes, stop_processes
from headswap.training.gradients import LossModule
from headswap.training.loop import train
from headswap.training.optimizer import make_optimizer, optimizer_of
from headswap.training.parameter_groups import GroupRate, Optimizer
from headswap.training.sharded import ShardedModule
from tiny import random_sequences, tiny_batch, tiny_model_shape, tiny_objective


@dataclass(frozen=True)
class Case:
    """A training of six steps."""

    name: str
    worlds: tuple[int, ...] = (0, 1, 2, 4)
    objective: str = "causal"
    preset: str = "small"
    has_adapters: bool = False
    is_broken_at: int | None = None
    """The step whose loss is nan."""
    frozen_until: int = 0
    """The step until which the first layer is frozen."""
    precision: str = "fp32"
    settings: dict[str, Any] = field(default_factory=dict)


CASES = (
    Case("plain"),
    Case("pairs", worlds=(0, 2), objective="masked+nsp", preset="bert-base"),
    Case("accumulated", worlds=(0, 2), settings={"gradient_accumulation_steps": 3}),
    Case("adapters", worlds=(0, 2), has_adapters=True),
    Case("broken", worlds=(0, 2), is_broken_at=2, settings={"on_nan": "skip:3"}),
    Case("gradual", worlds=(0, 2), frozen_until=3),
    Case("bf16", worlds=(0, 1, 2), precision="bf16", preset="modern"),
)


@dataclass
class Source:
    """Five texts per step; in every third step one text, so that all processes but one have none."""

    case: Case
    step: int = 0

    def micro_batches(self, step: int, *, count: int) -> list[Batch]:
        self.step = step
        lengths = [3, 17, 8, 2, 11][: 1 if step % 3 == 2 else 5]
        rows = random_sequences(lengths, seed=step)
        parts = [part for part in np.array_split(np.arange(len(rows)), count) if len(part)]
        name = self.case.objective
        return [tiny_batch(name, [rows[row] for row in part], step=step, first_document=part[0]) for part in parts]


@dataclass
class BreaksAt:
    """An objective whose loss is nan in one step, in the process that has the first text."""

    objective: Objective
    source: Source
    step: int

    def loss_sum(self, model: TextModel, batch: Batch) -> Tensor:
        is_broken = self.source.step == self.step and 0 in batch.documents
        return self.objective.loss_sum(model, batch) * (float("nan") if is_broken else 1.0)


def make_model(case: Case) -> TextModel:
    objective = tiny_objective(case.objective)
    shape = tiny_model_shape(
        case.preset, direction=objective.direction, type_vocab_size=objective.num_segments
    ).changed(
        pair_head=objective.num_segments > 0, lora=LoraShape(rank=3, alpha=6.0) if case.has_adapters else None
    )  # fmt: skip
    model = build_model(shape, seed=1)
    if case.has_adapters:
        freeze(model, AdaptationSettings(trainable="lora"))
    return model if case.precision == "bf16" else model.double()


def run(case: Case, file: Path, *, is_sharded: bool, device: str) -> None:
    """Train in this process and write what was found."""
    machine = Machine(MachineSettings(device=device, threads=1, precision=case.precision))
    processes = start_processes(machine.device, "fsdp" if is_sharded else "ddp")
    settings = OptimizerSettings(learning_rate=1e-2, warmup_steps=0, seed=5, **case.settings)
    model, source = make_model(case).to(machine.device), Source(case)
    objective: Objective = tiny_objective(case.objective)
    if case.is_broken_at is not None:
        objective = BreaksAt(objective, source, case.is_broken_at)
    rates = {
        name: GroupRate(0.5, case.frozen_until) if ".layers.0." in name else GroupRate()
        for name, _ in model.named_parameters()
    }
    if is_sharded:
        module: LossModule = ShardedModule(model, objective, machine, processes)
        optimizer = optimizer_of(module.trainable_shards(), settings, rates)
    else:
        module, optimizer = LossModule(model, objective), make_optimizer(model, settings, rates)
    records = train(
        module,
        optimizer,
        source,
        settings=settings,
        machine=machine,
        processes=processes,
        first_step=0,
        total_steps=6,
        may_capture=False,
    )
    found = [(record.loss.double(), record.grad_norm.double(), record.is_skipped.double()) for record in records]
    weights = module.whole() if isinstance(module, ShardedModule) else dict(model.named_parameters())
    if processes.is_first:
        numbers = torch.tensor(found, dtype=torch.float64)
        tensors = {name: tensor.detach().contiguous() for name, tensor in weights.items()}
        save_file({**tensors, "numbers": numbers, "bytes": bytes_of(optimizer)}, file)
    stop_processes()


def bytes_of(optimizer: Optimizer) -> Tensor:
    """Bytes of the parameters of this process, and of AdamW's moments of them."""
    tensors = [tensor for group in optimizer.groups for tensor in group.tensors]
    moments = [state for tensor in tensors for state in optimizer.state[tensor].values() if state.ndim]
    return torch.tensor([sum(part.nbytes for part in parts) for parts in (tensors, moments)])


def main(folder: Path, device: str) -> None:
    for case in CASES:
        for world in case.worlds if device == "cpu" else (0, 1):
            file = folder / f"{case.name}-{world}.safetensors"
            codes = run_forks(max(1, world), partial(run, case, file, is_sharded=world > 0, device=device))
            assert not any(codes), f"{file.name}: {codes}"


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]), sys.argv[2])
