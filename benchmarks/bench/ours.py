"""headswap's side: its loop, batches, optimizer and automatic choices, as in a run."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from headswap.batches.config import MaskingSettings
from headswap.batches.labelled_rows import ExampleBatches, Row
from headswap.finetuning.config import FinetuneTraining
from headswap.model.shape import BaseShape
from headswap.model.text_model import TextModel, build_model
from headswap.objectives.objective import make_objective
from headswap.objectives.supervised import ClassificationObjective
from headswap.pretraining.config import PretrainTraining
from headswap.pretraining.corpus import RowBatches
from headswap.tokens.store import TokenStore
from headswap.training.compile import compile_layers
from headswap.training.config import MachineSettings
from headswap.training.device import Machine
from headswap.training.distributed import Processes, start_processes
from headswap.training.gradients import LossModule
from headswap.training.loop import StepRecord, train
from headswap.training.optimizer import make_optimizer, optimizer_of

from .contest import Work
from .shapes import model_shape, random_ids

SPECIAL = ("sos_id", "pad_id", "eos_id", "unk_id", "mask_id", "sep_id")


def machine_of(device: str, base: BaseShape, *, fast: str = "auto") -> Machine:
    """Device, threads and number format as `headswap pretrain` without flags chooses them."""
    machine = Machine(MachineSettings(device=device, fast=fast))
    machine.resolve_precision(base.hidden_size)
    return machine


def pretraining(
    base: BaseShape, *, objective: str, batch: int, length: int, device: str, fast: str = "auto", steps: int = 1,
    how: str = "auto",
) -> Work:  # fmt: skip
    """`steps` steps of pre-training on windows of one length; `how` is auto, eager (no graph), or fsdp."""
    names = dict(zip(SPECIAL, range(6), strict=True))
    tokenizer: Any = SimpleNamespace(**names, special_ids=frozenset(range(6)), vocab_size=base.vocab_size)
    task = make_objective(objective, tokenizer, MaskingSettings())
    machine = machine_of(device, base, fast=fast)
    model = build_model(model_shape(base, direction=task.direction), seed=0).to(machine.device)
    if device == "cuda" and fast == "auto" and how == "auto":
        compile_layers(model, machine.device)  # as in every run of more than a few minutes
    # With <sos> the document fills whole batches, as for the peers: no step is smaller than the others.
    document = random_ids([batch * length * 8 - 1], base.vocab_size)
    store = TokenStore.from_documents(document, fingerprint="bench")
    rows = task.rows(store, np.arange(1), max_length=length, layout="packed")
    settings = PretrainTraining(batch_size=batch, learning_rate=3e-4, weight_decay=0.05)
    return _steps(model, task, RowBatches(rows, task, batch, 0), settings, machine, steps, how=how)


def finetuning(base: BaseShape, lengths: list[int], *, batch: int, device: str, fast: str = "auto") -> Work:
    """An epoch of fine-tuning a classifier on ragged sequences."""
    machine = machine_of(device, base, fast=fast)
    model = build_model(model_shape(base, head="classify"), seed=0).to(machine.device)
    place = np.zeros(1, dtype=np.int64)
    rows = [
        Row(number, ids, target_index=place, target_value=np.array([number % 2]))
        for number, ids in enumerate(random_ids(lengths, base.vocab_size))
    ]
    source = ExampleBatches(rows, batch, 0, False)
    settings = FinetuneTraining(batch_size=batch, learning_rate=1e-4)
    return _steps(model, ClassificationObjective(), source, settings, machine, -(-len(rows) // batch))


def _steps(
    model: TextModel, objective: Any, source: Any, settings: Any, machine: Machine, count: int, *, how: str = "auto"
) -> Work:
    processes, module = Processes(), LossModule(model, objective)
    optimizer = make_optimizer(model, settings)
    if how == "fsdp":
        from headswap.training.sharded import ShardedModule

        processes = start_processes(machine.device, "fsdp")
        module = ShardedModule(model, objective, machine, processes)
        optimizer = optimizer_of(module.trainable_shards(), settings)
    records: Iterator[StepRecord] = train(
        module, optimizer, source, settings=settings, machine=machine, processes=processes, first_step=0,
        total_steps=1_000_000, may_capture=how == "auto",
    )  # fmt: skip

    def work() -> float:
        done = [next(records) for _ in range(count)]
        if not torch.stack([record.loss for record in done]).isfinite().all():
            raise RuntimeError("the loss is not finite")
        return float(sum(int(record.num_tokens) for record in done))

    return work
