"""`headswap estimate`."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Group, Parameter

from headswap.cli.flags import Model, Output, OutputFlags, refuse_hidden, switch
from headswap.model.shape import PRESET_VOCAB_SIZES, Count, ModelSettings, Share
from headswap.training.config import ParallelName

OfModel = Parameter(group=Group("Model"))
OfTraining = Parameter(group=Group("Training"))
OfMachine = Parameter(group=Group("Machine"))

if TYPE_CHECKING:
    from headswap.model.shape import BaseShape
    from headswap.pretraining.measured_step import MeasuredStep
    from headswap.pretraining.run_cost import EstimatedRun, RunCost, Speed

Measure = switch("Train on random tokens for a few seconds on this machine, and use the measured speed.")


class EstimatedModel(ModelSettings):
    """The shape of the model whose training is estimated."""

    num_attention_heads: Count | None = None
    """Number of attention heads per layer. It changes the estimate only with --measure. --hidden-size must be a
    multiple of it. Default: that of the preset."""
    dropout: Share | None = None
    """Dropout on embeddings and residual branches. Dropout above 0 needs more memory. Default: 0.1 with gpt2-small and
    bert-base, 0 with other presets."""
    attention_dropout: Share | None = None
    """Dropout on attention weights. It changes the estimate only with --measure. Default: 0 in the presets small,
    modern and llama; in other presets that of --dropout."""


def estimate(
    *,
    tokens: Annotated[float, OfTraining],
    epochs: Annotated[float, OfTraining] = 1.0,
    batch_size: Annotated[int, OfTraining] = 32,
    gradient_accumulation_steps: Annotated[int, OfTraining] = 1,
    objective: Annotated[Literal["causal", "masked"], OfTraining] = "causal",
    gpus: Annotated[int, OfMachine] = 1,
    parallel: Annotated[ParallelName, OfMachine] = "ddp",
    gpu: Annotated[str, OfMachine] = "h200",
    tflops: Annotated[float | None, OfMachine] = None,
    bandwidth: Annotated[float | None, OfMachine] = None,
    precision: Annotated[Literal["bf16", "fp32"], OfMachine] = "bf16",
    measure: Annotated[bool, Measure, OfMachine] = False,
    vocab_size: Annotated[int | None, OfModel] = None,
    max_length: Annotated[int | None, OfModel] = None,
    model: Annotated[EstimatedModel | None, Model] = None,
    flags: Annotated[OutputFlags, Output] = OutputFlags(),
) -> None:
    """Estimate the time, memory and disk of a pre-training run.

    Nothing is written. What is not measured on this machine is marked as a formula or a projection.

    Example: headswap estimate --preset gpt2-small --tokens 2e9 --gpus 8 --parallel fsdp

    Parameters
    ----------
    tokens
        Number of training tokens of the whole run, over all epochs, for example 2e9.
    epochs
        Number of passes over the corpus. The token store on disk then has --tokens / --epochs tokens.
    batch_size
        Number of sequences per optimizer step, over all GPUs together.
    gradient_accumulation_steps
        Number of micro-batches into which each GPU splits its part of a batch.
    objective
        Pre-training objective: causal, or masked (15 % of the tokens are predicted).
    gpus
        Number of GPUs.
    parallel
        How GPUs share a model: ddp (each has all weights) or fsdp (each has a part).
    gpu
        GPU whose measured speed is used. Only h200 was measured. For another GPU give --tflops, or run this command
        on it with --measure.
    tflops
        Speed of one GPU in training, in TFLOP/s (1e12 floating-point operations per second), instead of that of --gpu.
    bandwidth
        GB per second that each GPU can send. [default: unlimited, so that communication costs no time]
    precision
        Number format of matrix multiplications. fp32 needs --tflops or --measure.
    vocab_size
        Number of tokens in the vocabulary. [default: 50,001 with lab, 50,257 with gpt2-small, 30,522 with bert-base,
        16,000 with other presets]
    max_length
        Number of tokens per sequence. [default: the context length of the preset (gpt2-small 1024, others 512)]
    """
    from headswap.cli.display import print_json, start_messages
    from headswap.pretraining.run_cost import EstimatedRun, advice, estimate_run, known_device

    refuse_hidden("estimate", model)
    _check_positive(
        tokens=tokens, epochs=epochs, batch_size=batch_size, gpus=gpus, tflops=tflops, bandwidth=bandwidth,
        gradient_accumulation_steps=gradient_accumulation_steps, vocab_size=vocab_size, max_length=max_length,
    )  # fmt: skip
    settings = model or EstimatedModel()
    base = settings.shape(vocab_size=vocab_size or PRESET_VOCAB_SIZES[settings.preset], max_length=max_length)
    run = EstimatedRun(
        tokens=tokens, epochs=epochs, gpus=gpus, parallel=parallel, batch_size=batch_size, objective=objective,
        accumulation=gradient_accumulation_steps, precision=precision,
    )  # fmt: skip
    run, measured = _measure(base, run, tflops) if measure else (run, None)
    speed = measured.speed if measured else _projected_speed(base, run, gpu, tflops)
    cost = estimate_run(base, run, speed, bandwidth=None if bandwidth is None else bandwidth * 1e9)
    note = advice(base, run, speed, known_device(gpu)) if measured is None and tflops is None else None
    if flags.json:
        print_json(cost.as_json() | _measured(measured) | ({"advice": note} if note else {}))
        return
    _print(cost, measured, title=f"{settings.preset}, {tokens:,.0f} tokens, {gpus} GPUs, {parallel}")
    if note:
        start_messages(quiet=flags.quiet).print(note)


def _check_positive(**values: float | None) -> None:
    from headswap.core.errors import SettingError

    for name, value in values.items():
        if value is not None and value <= 0:
            raise SettingError(f"--{name.replace('_', '-')} {value:g} is not allowed: it should be above 0.")


def _measure(base: "BaseShape", run: "EstimatedRun", tflops: float | None) -> tuple["EstimatedRun", "MeasuredStep"]:
    """The run for the device of this machine, and some steps on it."""
    from dataclasses import replace

    from headswap.core.errors import SettingError
    from headswap.pretraining.measured_step import measure_step
    from headswap.training.config import MachineSettings
    from headswap.training.device import Machine

    if tflops is not None:
        raise SettingError("--measure and --tflops are both given. Use one of them.")
    machine = Machine(MachineSettings(precision=run.precision))
    run = replace(run, device="cuda" if machine.device.type == "cuda" else "cpu")
    return run, measure_step(base, run, machine)


def _projected_speed(base: "BaseShape", run: "EstimatedRun", gpu: str, tflops: float | None) -> "Speed":
    """The speed that is given, or that of the table of measured GPUs."""
    from headswap.core.errors import SettingError
    from headswap.pretraining.run_cost import PROJECTION, Speed, known_device

    if tflops is not None:
        return Speed(tflops, f"{PROJECTION} from --tflops")
    device = known_device(gpu)
    if run.precision != "bf16":
        raise SettingError("The table of measured GPUs is for bf16. Give --tflops for fp32, or use --measure.")
    source = f"{PROJECTION} from {device.name}, measured on {device.date} in bf16"
    return Speed(device.teraflops(base, run), source)


def _measured(measured: "MeasuredStep | None") -> dict[str, Any]:
    """The entry of `--json` about measured steps; none without `--measure`."""
    if measured is None:
        return {}
    timed = measured.timed.tokens / measured.timed.seconds
    found = {"device": measured.device, "step_seconds": measured.step_seconds, "tokens_per_second": timed}
    return {"measured": found | {"peak_memory_bytes": measured.peak_memory_bytes}}


def _print(cost: "RunCost", measured: "MeasuredStep | None", *, title: str) -> None:
    from headswap.cli.display import print_table
    from headswap.study.jobs.preflight import minutes, size

    found, labels = cost.as_json(), cost.labels
    rows = [
        ("parameters", f"{cost.parameters:,}", labels["parameters"]),
        ("operations per token", f"{cost.flops_per_token / 1e6:,.1f} MFLOP", labels["flops_per_token"]),
        ("steps", f"{cost.steps:,}", "formula"),
        ("time", minutes(cost.seconds), labels["seconds"]),
        ("tokens per second", f"{cost.tokens_per_second:,.0f}", labels["tokens_per_second"]),
        ("speed of one GPU", f"{cost.speed.teraflops:,.3g} TFLOP/s", cost.speed.source),
        ("memory per GPU", size(found["memory_per_gpu_total"]), labels["memory_per_gpu"]),
        *((f"  {name}", size(value), "") for name, value in cost.memory_per_gpu.items()),
        ("disk", size(found["disk_total"]), labels["disk"]),
        *((f"  {name}", size(value), "") for name, value in cost.disk.items()),
        ("sent by each GPU per step", size(cost.sent_bytes_per_step), "formula"),
    ]
    if measured is not None and measured.peak_memory_bytes is not None:
        rows.append(("memory of the measured steps", size(measured.peak_memory_bytes), f"measured, {measured.device}"))
    print_table(title, ("quantity", "value", "how it is known"), rows)
