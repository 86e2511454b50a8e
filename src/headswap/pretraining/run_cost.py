"""The cost of a pre-training run by formula: operations, time, memory per GPU, and disk.

P are the parameters, N the GPUs, D the width, F the feed-forward width, L the layers, T the tokens of a sequence.

- Operations per token: 6 per weight of a matrix (forward 2, backward 4), and attention's 12 L D T (half if causal).
- Memory of a GPU: weights and gradients of 4 bytes per parameter, AdamW's two moments of 4 bytes each, activations.
  Under ddp each GPU has all of it and DDP's buckets, a second copy of the gradients. Under fsdp each has 1/N, and
  gathered weights: all that is not in a layer, and two layers.
- Disk: the bundle, and checkpoints of three tensors per parameter; one more exists while it is written. The token store
  has 2 or 4 bytes per token of the corpus.

Only one GPU can be measured; time for several is a projection.
"""

from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from headswap.core.errors import SettingError, listed
from headswap.kernels.chunked_loss import CHUNK_ELEMENTS
from headswap.model.parameter_count import count_parameters
from headswap.model.shape import BaseShape
from headswap.model.text_model import ModelShape, build_empty
from headswap.tokens.store_writer import id_type
from headswap.training.config import ParallelName

WORD = 4
"""Bytes of a weight, a gradient and each of AdamW's moments."""
MASKED_SHARE = 0.15
USABLE_SHARE = 0.8
"""Of the memory of a GPU; the formulas have no fragmentation and no other programs in them."""
PROJECTION, FORMULA, MEASURED = "projection", "formula", "from the measured step"


@dataclass(frozen=True)
class Device:
    """Speed of a GPU type in training with bf16, from measured steps and runs."""

    name: str
    date: str
    memory_bytes: float
    head: float
    """Operations per second / 1e12 in the head and its loss: one large product."""
    layers: tuple[tuple[int, float], ...]
    """(width of the base, operations per second / 1e12 in its layers), ascending."""

    def teraflops(self, base: BaseShape, run: "EstimatedRun") -> float:
        """What this base reaches. Between two measured widths the speed of the layers is interpolated."""
        share = MASKED_SHARE if run.objective == "masked" else 1.0
        length = run.max_length or base.max_position_embeddings
        whole = forward_and_backward(base, 1, length=length, targets=share, is_causal=run.objective == "causal")
        head = 6 * share * base.vocab_size * base.hidden_size
        widths, speeds = zip(*self.layers, strict=True)
        in_layers = float(np.interp(base.hidden_size, widths, speeds))
        return whole / (head / self.head + (whole - head) / in_layers)


DEVICES = {
    # Of training steps: the lab's shape and gpt2-small (docs/performance.md, rows 1 and 3). Of runs on an idle device,
    # with their evaluations: small (150 M tokens in 108 s) and modern (155 M in 100 s). The speed of the head is a
    # choice; with it these four speeds of layers rise with the width.
    "h200": Device("NVIDIA H200", "2026-11-16", 141e9, 400.0, ((200, 39.0), (256, 50.0), (512, 239.0), (768, 393.0))),
}


@dataclass(frozen=True)
class EstimatedRun:
    """What a run is asked to do."""

    tokens: float
    """Training tokens, repetitions counted."""
    epochs: float = 1.0
    gpus: int = 1
    parallel: ParallelName = "ddp"
    batch_size: int = 32
    accumulation: int = 1
    max_length: int | None = None
    objective: Literal["causal", "masked"] = "causal"
    precision: Literal["bf16", "fp32"] = "bf16"
    device: Literal["cuda", "cpu"] = "cuda"
    kept_checkpoints: int = 2


@dataclass(frozen=True)
class Speed:
    """How fast one GPU trains, and how that is known."""

    teraflops: float
    source: str


def known_device(name: str) -> Device:
    """An entry of the table of measured devices."""
    if name.lower() not in DEVICES:
        raise SettingError(
            f"--gpu {name} is not in the table of measured GPUs ({listed(DEVICES)}). Give --tflops, the operations per "
            "second / 1e12 that it reaches in training (often 0.3 to 0.5 of its peak), or run with --measure on it."
        )
    return DEVICES[name.lower()]


def forward_and_backward(
    base: BaseShape, tokens: float, *, length: int, targets: float, is_causal: bool = True
) -> float:
    """Operations of a training step on some tokens, of which some are targets."""
    dim, keys = base.hidden_size, base.num_shared_heads * base.head_dim
    matrices = 3 if base.activation == "swiglu" else 2
    layer = 2 * dim**2 + 2 * dim * keys + matrices * dim * base.intermediate_size
    attention = 12 * dim * length * (0.5 if is_causal else 1.0)
    return tokens * base.num_hidden_layers * (6 * layer + attention) + 6 * targets * base.vocab_size * dim


def activation_bytes(base: BaseShape, run: EstimatedRun, *, length: int) -> float:
    """What the backward pass needs of one micro-batch, and the logits of one chunk of the loss.

    Per token and layer: two inputs of norms in fp32; in the number format of the products their outputs, queries, keys,
    values, the output of attention, and the inner vectors of the feed-forward part (two, or four with SwiGLU).
    """
    word = 2 if run.precision == "bf16" else 4
    dim, keys = base.hidden_size, base.num_shared_heads * base.head_dim
    inner = (4 if base.activation == "swiglu" else 2) * base.intermediate_size
    per_layer = 2 * WORD * dim + word * (2 * dim + dim + 2 * keys + dim + inner)
    dropout = 3 * dim if base.dropout else 0
    tokens = -(-run.batch_size // (run.gpus * run.accumulation)) * length
    targets = tokens * (MASKED_SHARE if run.objective == "masked" else 1.0)
    logits = min(targets * base.vocab_size, CHUNK_ELEMENTS[run.device]) * 2 * word
    head = base.vocab_size * dim * WORD + targets * dim * 2 * word
    return tokens * (base.num_hidden_layers * (per_layer + dropout) + 2 * WORD * dim) + logits + head


@dataclass(frozen=True)
class RunCost:
    """The estimate of a run."""

    parameters: int
    flops_per_token: float
    steps: int
    memory_per_gpu: dict[str, float]
    """Bytes by part."""
    disk: dict[str, float]
    """Bytes by part."""
    seconds: float
    tokens_per_second: float
    sent_bytes_per_step: float
    """What each GPU sends to the others in one step."""
    labels: dict[str, str]
    """Per quantity, whether it is a formula, measured, or a projection."""
    speed: Speed

    def as_json(self) -> dict[str, Any]:
        """The object that `headswap estimate --json` prints."""
        return asdict(self) | {
            "memory_per_gpu_total": sum(self.memory_per_gpu.values()),
            "disk_total": sum(self.disk.values()),
        }


def estimate_run(base: BaseShape, run: EstimatedRun, speed: Speed, *, bandwidth: float | None = None) -> RunCost:
    """Time, memory and disk of a run. `bandwidth` in bytes per second limits what GPUs exchange during a step."""
    shape = ModelShape(base=base, direction="causal" if run.objective == "causal" else "bidirectional")
    counted = count_parameters(build_empty(shape))
    parts = {part.name: part.count for part in counted.parts}
    in_layers = sum(parts.get(name, 0) for name in ("attention", "feed-forward", "layer norms"))
    length = run.max_length or base.max_position_embeddings
    share = MASKED_SHARE if run.objective == "masked" else 1.0
    flops = forward_and_backward(base, 1, length=length, targets=share, is_causal=run.objective == "causal")
    memory = state_bytes(counted.total, in_layers, base.num_hidden_layers, run)
    memory["activations"] = activation_bytes(base, run, length=length)
    per_step = run.batch_size * length
    sent = _sent(counted.total, in_layers, run)
    computed = per_step * flops / (speed.teraflops * 1e12 * run.gpus)
    step_seconds = computed if bandwidth is None else max(computed, sent / bandwidth)
    is_projected = run.gpus > 1 or speed.source != MEASURED
    return RunCost(
        parameters=counted.total,
        flops_per_token=flops,
        steps=max(1, round(run.tokens / per_step)),
        memory_per_gpu=memory,
        disk=_disk(counted.total, base, run),
        seconds=run.tokens / per_step * step_seconds,
        tokens_per_second=per_step / step_seconds,
        sent_bytes_per_step=sent,
        labels={
            "parameters": FORMULA, "flops_per_token": FORMULA, "memory_per_gpu": FORMULA, "disk": FORMULA,
            "seconds": PROJECTION if is_projected else MEASURED,
            "tokens_per_second": PROJECTION if is_projected else MEASURED,
        },
        speed=speed,
    )  # fmt: skip


def advice(base: BaseShape, run: EstimatedRun, speed: Speed, device: Device) -> str | None:
    """A sentence if FSDP is planned for a model that fits on the device without it, where DDP is faster."""
    if run.parallel != "fsdp":
        return None
    needed = sum(estimate_run(base, replace(run, parallel="ddp"), speed).memory_per_gpu.values())
    if needed > USABLE_SHARE * device.memory_bytes:
        return None
    return (
        f"With --parallel ddp a GPU needs {needed / 1e9:.1f} GB, which fits on one {device.name} "
        f"({device.memory_bytes / 1e9:.0f} GB). ddp is faster for models that fit."
    )


def state_bytes(total: int, in_layers: int, num_layers: int, run: EstimatedRun) -> dict[str, float]:
    """Bytes of weights, gradients and optimizer state on one GPU."""
    parts = run.gpus if run.parallel == "fsdp" else 1
    memory: dict[str, float] = {
        "weights": WORD * total / parts, "gradients": WORD * total / parts, "optimizer": 2 * WORD * total / parts,
    }  # fmt: skip
    if run.parallel == "fsdp":  # weights and gradients outside the layers, and of two layers
        word = 2 if run.precision == "bf16" else WORD
        memory["gathered"] = 2 * WORD * (total - in_layers) + 2 * (word + WORD) * in_layers / num_layers
    elif run.gpus > 1:
        memory["buckets of ddp"] = WORD * total
    return memory


def _sent(total: int, in_layers: int, run: EstimatedRun) -> float:
    """Bytes that each GPU sends in one step, by rings.

    ddp sums the gradients: twice their size. fsdp gathers the weights of the layers twice and the others once per
    micro-batch, and sums the gradients once.
    """
    word = 2 if run.precision == "bf16" else WORD
    if run.parallel == "fsdp":
        gathered = run.accumulation * (2 * word * in_layers + WORD * (total - in_layers))
        whole = gathered + WORD * total
    else:
        whole = 2 * WORD * total
    return whole * (run.gpus - 1) / run.gpus


def _disk(total: int, base: BaseShape, run: EstimatedRun) -> dict[str, float]:
    """Bytes of what a run writes. A checkpoint has the weights and two moments per weight."""
    return {
        "bundle": WORD * total,
        "checkpoints": 3 * WORD * total * (run.kept_checkpoints + 1),
        "token store": run.tokens / run.epochs * int(id_type(base.vocab_size)[-1]),
    }
