"""Settings that pre-training and fine-tuning share. Does not import torch."""

import re
from typing import Annotated, Literal

from pydantic import Field, field_validator

from headswap.core.settings import Settings
from headswap.model.shape import Share

Positive = Annotated[float, Field(gt=0)]

Seed = Annotated[int, Field(ge=0, lt=2**63)]
Epochs = Annotated[float, Field(gt=0, le=1e6)]
Steps = Annotated[int, Field(ge=1, le=10**12)]
MOST_THREADS = 1024  # PyTorch crashes with many thousand
DeviceName = Literal["auto", "cpu", "cuda"]
FastName = Literal["auto", "off"]
PrecisionName = Literal["auto", "fp32", "bf16"]
ParallelName = Literal["ddp", "fsdp"]


class MachineSettings(Settings):
    """Device, number format and kernels of a run. Apart from rounding they do not change results."""

    device: DeviceName = "auto"
    """Device: auto uses a CUDA GPU if there is one, otherwise the CPU."""
    precision: PrecisionName = "auto"
    """Number format of matrix multiplications. GPU: auto uses bf16 if the GPU supports it, otherwise fp32. CPU: auto
    uses bf16 for training steps if the CPU supports it and the width is 128 or more, otherwise fp32."""
    threads: Annotated[int, Field(ge=1, le=MOST_THREADS)] | None = None
    """Number of CPU threads. Results are bit-identical only with the same number of threads. Default: one per core."""
    deterministic: bool = False
    """Use only deterministic CUDA kernels, so that a repeated run gives bit-identical results. Training is slower. On a
    CPU results are always bit-identical if the number of threads is the same."""
    fast: FastName = "auto"
    """auto uses fast kernels and, on GPUs, CUDA graphs and torch.compile where they save time; the log names those that
    are used. off uses none of them. The results differ only by rounding and, on a GPU, by the random dropout masks."""
    allow_download: bool = False
    """Download a model (hf:NAME) that is not in the local cache of huggingface_hub. Data sets (hf:NAME) are downloaded
    without this flag."""


class ProcessSettings(MachineSettings):
    """The machine of a training run, which may have several processes."""

    parallel: ParallelName = "ddp"
    """How the processes of torchrun share a model. ddp: each process has all weights and the whole optimizer state.
    fsdp: each process has a part of weights, gradients and optimizer state, for models that do not fit on one GPU.
    Results differ only by rounding."""


class TrainingSettings(Settings):
    """Settings of the optimizer, the schedule, checkpoints and logging."""

    max_steps: Steps | None = None
    """Stop after this many optimizer steps."""
    batch_size: Steps = 16
    """Number of texts per optimizer step, over all processes of torchrun together."""
    gradient_accumulation_steps: Steps = 1
    """Number of micro-batches into which a batch is split (under torchrun: the part of each process). More
    micro-batches need less memory; results differ only by rounding and by the random dropout masks."""
    learning_rate: Positive | None = None
    """Peak learning rate. Default: 0.0001 x sqrt(256 / width), but at least 0.0001; if the base was pre-trained on
    fewer than 3 tokens per parameter 0.0006 x sqrt(256 / width), from scratch 0.0003 x sqrt(256 / width)."""
    lr_scheduler_type: Literal["linear", "cosine", "constant"] = "linear"
    """Schedule after warm-up: linear or cosine decay to 0, or constant."""
    warmup_steps: Annotated[float, Field(ge=0, le=1e12)] = 0.06
    """Steps of linear warm-up; a value below 1 is a fraction of all steps."""
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    """Weight decay of AdamW. Biases and norms are not decayed."""
    adam_beta1: Share = 0.9
    """beta1 of AdamW: decay rate of the running mean of the gradient."""
    adam_beta2: Share = 0.999
    """beta2 of AdamW: decay rate of the running mean of the squared gradient."""
    adam_epsilon: Positive = 1e-8
    """epsilon of AdamW."""
    max_grad_norm: Positive | None = 1.0
    """Clip the gradient to at most this norm."""
    seed: Seed = 42
    """Seed of initialisation, data order and dropout."""
    save_steps: Steps | None = None
    """Save a checkpoint every N steps. Default: after an evaluation, if the last checkpoint is over a minute old."""
    save_total_limit: Steps = 2
    """Number of checkpoints to keep; older ones are removed."""
    logging_steps: Steps = 10
    """Log the training loss every N steps."""
    on_nan: str = "stop"
    """What to do in a step whose loss or gradient is nan or inf: stop (end the run), or skip:N (skip such steps and
    record each of them; stop after more than N). Such a step never changes a weight."""

    @field_validator("on_nan")
    @classmethod
    def _known_on_nan(cls, value: str) -> str:
        if not re.fullmatch(r"stop|skip:[1-9]\d{0,5}", value):
            raise ValueError(f"on_nan = {value!r} is not allowed. Give stop, or skip:N with a number of steps as N")
        return value

    @property
    def most_skipped(self) -> int:
        """How many steps with a non-finite loss or gradient may be skipped."""
        return 0 if self.on_nan == "stop" else int(self.on_nan.removeprefix("skip:"))


class OptimizerSettings(TrainingSettings):
    """Settings of trainings that can use Muon."""

    optimizer: Literal["adamw", "muon"] | None = None
    """adamw, or muon: Muon for the matrices of the layers and AdamW for embeddings, norms, biases and the head.
    Default: muon with --preset modern and --objective causal on a GPU, for more than 5 epochs, if neither
    --learning-rate nor --weight-decay is given; otherwise adamw."""
    muon_lr_factor: Positive | None = None
    """With --optimizer muon: learning rate of the matrices of the layers, divided by --learning-rate. Default: 14."""
