"""Settings of training, and the recipes of the two training verbs. Free of torch."""

import re
from typing import Annotated, Literal

from pydantic import Field, field_validator

from headswap.core.settings import Settings
from headswap.model.shape import Share

Positive = Annotated[float, Field(gt=0)]

Steps = Annotated[int, Field(ge=1)]
DeviceName = Literal["auto", "cpu", "cuda"]
FastName = Literal["auto", "off"]
PrecisionName = Literal["auto", "fp32", "bf16"]


class MachineSettings(Settings):
    """What a run is computed on; none of it changes what is computed beyond rounding."""

    device: DeviceName = "auto"
    """Where to compute: auto takes a CUDA device if there is one."""
    precision: PrecisionName = "auto"
    """Number format of the large products: auto is bf16 on a CUDA device that has it, and for the training steps (not
    the scores) of a base of width 128 or more on a CPU that has it; else fp32."""
    threads: Steps | None = None
    """CPU threads; by default all cores. Results are bit-equal for equal thread counts."""
    deterministic: bool = False
    """On a CUDA device use only kernels that give the same bits every time; slower. A CPU always does."""
    fast: FastName = "auto"
    """auto takes the fast kernels and the compiler where they pay off, and says which; off computes everything plainly.
    The results are the same but for rounding."""


class TrainingSettings(Settings):
    """What pre-training and fine-tuning share."""

    max_steps: Steps | None = None
    """Stop after this many optimizer steps."""
    batch_size: Steps = 16
    """Sequences per optimizer step, over all micro-batches and processes."""
    gradient_accumulation_steps: Steps = 1
    """Micro-batches a process makes of its part of a batch: less memory, the same results but for the dropout drawn."""
    learning_rate: Positive | None = None
    """Peak learning rate. By default fitted to the width of the base."""
    lr_scheduler_type: Literal["linear", "cosine", "constant"] = "linear"
    """How the learning rate goes from its peak to the end."""
    warmup_steps: Annotated[float, Field(ge=0)] = 0.06
    """Steps of linear warm-up; a number below 1 is a share of all steps."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """AdamW's weight decay; never on biases and norms."""
    adam_beta1: Share = 0.9
    """AdamW's first decay rate."""
    adam_beta2: Share = 0.999
    """AdamW's second decay rate."""
    adam_epsilon: Positive = 1e-8
    """AdamW's epsilon."""
    max_grad_norm: Positive | None = 1.0
    """Clip the gradient to this norm."""
    seed: Annotated[int, Field(ge=0)] = 42
    """Seed of every stream: initialisation, order, dropout."""
    save_steps: Steps | None = None
    """Checkpoint every so many steps; by default at evaluations, once a minute has passed since the last one."""
    save_total_limit: Steps = 2
    """Checkpoints to keep."""
    logging_steps: Steps = 10
    """Write a line of training loss every so many steps."""
    on_nan: str = "stop"
    """What to do when a loss or gradient is not finite: stop, or skip:N to pass over at most N such steps, each
    recorded. No weight moves in such a step."""

    @field_validator("on_nan")
    @classmethod
    def _known_on_nan(cls, value: str) -> str:
        if not re.fullmatch(r"stop|skip:[1-9]\d{0,5}", value):
            raise ValueError(f"on_nan = {value!r} is not allowed. Give stop, or skip:N with a number of steps as N")
        return value

    @property
    def most_skipped(self) -> int:
        """How many steps may be skipped because they are not finite."""
        return 0 if self.on_nan == "stop" else int(self.on_nan.removeprefix("skip:"))
