"""Measure a training step of a shape on this machine: random tokens, the loop of a run, a few seconds."""

from dataclasses import dataclass

import numpy as np

from headswap.batches.batch import Batch, joined_batch
from headswap.core.random_streams import numpy_stream
from headswap.model.shape import BaseShape
from headswap.model.text_model import ModelShape, build_model
from headswap.objectives.objective import TokenObjective
from headswap.pretraining.run_cost import MASKED_SHARE, MEASURED, EstimatedRun, Speed, forward_and_backward
from headswap.pretraining.time_budget import TimedSteps, time_steps
from headswap.training.config import OptimizerSettings
from headswap.training.device import Machine
from headswap.training.distributed import Processes
from headswap.training.gradients import LossModule
from headswap.training.loop import train
from headswap.training.optimizer import make_optimizer


@dataclass(frozen=True)
class RandomRows:
    """Batches of random tokens, all rows of one length."""

    vocab_size: int
    batch_size: int
    length: int
    target_share: float

    def micro_batches(self, step: int, *, count: int) -> list[Batch]:
        """The same number of tokens in every step."""
        stream = numpy_stream(step, "measured step")
        parts = [len(part) for part in np.array_split(np.arange(self.batch_size), count) if len(part)]
        return [self._batch(stream, rows) for rows in parts]

    def _batch(self, stream: np.random.Generator, rows: int) -> Batch:
        tokens = rows * self.length
        targets = np.arange(tokens)
        if self.target_share < 1:
            targets = np.sort(stream.choice(tokens, max(1, round(tokens * self.target_share)), replace=False))
        return joined_batch(
            stream.integers(0, self.vocab_size, tokens),
            np.full(rows, self.length),
            target_index=targets,
            target_value=stream.integers(0, self.vocab_size, len(targets)),
            documents=np.arange(rows),
        )


@dataclass(frozen=True)
class MeasuredStep:
    """What was measured."""

    speed: Speed
    timed: TimedSteps
    peak_memory_bytes: int | None
    """Growth of the peak memory of the process, or of the GPU."""
    device: str

    @property
    def step_seconds(self) -> float:
        """Seconds per step."""
        return self.timed.seconds / self.timed.steps


def measure_step(base: BaseShape, run: EstimatedRun, machine: Machine) -> MeasuredStep:
    """Train a new model of this shape for a few seconds with the batches of one GPU of the run."""
    length = run.max_length or base.max_position_embeddings
    is_causal = run.objective == "causal"
    share = 1.0 if is_causal else MASKED_SHARE
    source = RandomRows(base.vocab_size, -(-run.batch_size // run.gpus), length, share)
    settings = OptimizerSettings(
        batch_size=source.batch_size, gradient_accumulation_steps=run.accumulation, learning_rate=1e-6, warmup_steps=0
    )
    before = machine.peak_memory()
    shape = ModelShape(base=base, direction="causal" if is_causal else "bidirectional")
    model = build_model(shape, seed=0).to(machine.device)
    records = train(
        LossModule(model, TokenObjective()), make_optimizer(model, settings), source, settings=settings,
        machine=machine, processes=Processes(), first_step=0, total_steps=1_000_000,
    )  # fmt: skip
    timed = time_steps(records, machine)
    records.close()
    after = machine.peak_memory()
    flops = forward_and_backward(base, timed.tokens, length=length, targets=timed.tokens * share, is_causal=is_causal)
    return MeasuredStep(
        speed=Speed(flops / timed.seconds / 1e12, MEASURED),
        timed=timed,
        peak_memory_bytes=None if before is None or after is None else after - before,
        device=machine.describe(),
    )
