"""Formulas of time, memory and disk, against known figures and against tensors that were made."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file

import headswap as hs
from headswap.core.errors import SettingError
from headswap.model.shape import ModelSettings
from headswap.pretraining.run_cost import (
    DEVICES,
    FORMULA,
    MEASURED,
    PROJECTION,
    EstimatedRun,
    Speed,
    advice,
    estimate_run,
    forward_and_backward,
    known_device,
)
from headswap.tokens.store import TokenStore
from tiny import PRETRAIN

GPT2 = ModelSettings(preset="gpt2-small").shape(vocab_size=50_257)
LARGE = ModelSettings(
    preset="llama", hidden_size=2048, num_hidden_layers=20, num_attention_heads=16, intermediate_size=5632
).shape(vocab_size=50_000)
RUN = EstimatedRun(tokens=1e9)
SPEED = Speed(100.0, PROJECTION)


def test_operations_of_gpt2_are_six_per_weight_and_attention() -> None:
    matrices = 12 * (4 * 768**2 + 2 * 768 * 3072) + 50_257 * 768
    attention = 12 * 12 * 768 * 1024 / 2
    assert forward_and_backward(GPT2, 1, length=1024, targets=1) == 6 * matrices + attention
    masked = forward_and_backward(GPT2, 1, length=1024, targets=0.15, is_causal=False)
    assert masked == pytest.approx(6 * (matrices - 0.85 * 50_257 * 768) + 2 * attention)


def test_time_is_operations_divided_by_speed_and_a_projection_unless_measured_on_one_gpu() -> None:
    one = estimate_run(GPT2, RUN, SPEED)
    assert one.seconds == pytest.approx(1e9 * one.flops_per_token / 1e14)
    eight = estimate_run(GPT2, replace(RUN, gpus=8), Speed(100.0, MEASURED))
    assert eight.seconds == pytest.approx(one.seconds / 8)
    assert one.labels["seconds"] == eight.labels["seconds"] == PROJECTION
    assert estimate_run(GPT2, RUN, Speed(100.0, MEASURED)).labels["seconds"] == MEASURED
    assert one.labels["memory_per_gpu"] == FORMULA


def test_a_slow_connection_limits_the_speed_of_several_gpus() -> None:
    run = replace(RUN, gpus=8)
    fast, slow = (estimate_run(GPT2, run, SPEED, bandwidth=bandwidth) for bandwidth in (1e12, 1e8))
    assert fast.seconds == estimate_run(GPT2, run, SPEED).seconds
    assert slow.seconds == pytest.approx(slow.steps * slow.sent_bytes_per_step / 1e8, rel=1e-3)
    assert estimate_run(GPT2, RUN, SPEED, bandwidth=1.0).seconds < slow.seconds, "one GPU sends nothing"


def test_a_billion_parameters_fit_on_small_gpus_only_with_fsdp() -> None:
    ddp, fsdp = (estimate_run(LARGE, replace(RUN, gpus=8, parallel=how), SPEED) for how in ("ddp", "fsdp"))
    assert ddp.parameters > 1e9
    states = [
        sum(value for name, value in cost.memory_per_gpu.items() if name != "activations") for cost in (ddp, fsdp)
    ]
    assert states[0] > 20e9 * ddp.parameters / 1e9 * 0.99
    assert states[1] < states[0] / 4
    assert ddp.memory_per_gpu["activations"] == fsdp.memory_per_gpu["activations"]
    assert ddp.disk == fsdp.disk


def test_ddp_is_advised_for_a_model_that_fits_without_fsdp() -> None:
    gpu, sharded = DEVICES["h200"], replace(RUN, gpus=8, parallel="fsdp")
    found = advice(GPT2, sharded, SPEED, gpu)
    assert found is not None
    assert "ddp is faster" in found
    assert advice(GPT2, replace(sharded, parallel="ddp"), SPEED, gpu) is None
    assert advice(GPT2, sharded, SPEED, replace(gpu, memory_bytes=2e9)) is None


def test_more_micro_batches_need_less_memory() -> None:
    plain, split = (estimate_run(GPT2, replace(RUN, accumulation=count), SPEED) for count in (1, 4))
    assert split.memory_per_gpu["activations"] < plain.memory_per_gpu["activations"] / 2
    assert split.memory_per_gpu["weights"] == plain.memory_per_gpu["weights"]


def test_a_bundle_and_a_checkpoint_have_the_estimated_sizes(tiny_runs: Path) -> None:
    run = hs.pretrain(tiny_runs / "corpus.txt", out=tiny_runs.parent / "sized", max_steps=2, **PRETRAIN)
    base = run.model.bundle.model.shape.base
    cost = estimate_run(base, replace(RUN, kept_checkpoints=1), SPEED)
    assert num_bytes(run.path / "bundle" / "model.safetensors") == cost.disk["bundle"]
    last = run.path / "checkpoints" / "last"
    written = num_bytes(last / "model.safetensors") + num_bytes(last / "optimizer.safetensors")
    assert written == pytest.approx(cost.disk["checkpoints"] / 2, rel=1e-2), "one more exists while it is written"
    store = TokenStore.from_documents([np.arange(50)] * 20, fingerprint="test")
    assert store.ids.nbytes == estimate_run(base, replace(RUN, tokens=2_000, epochs=2), SPEED).disk["token store"]


def num_bytes(file: Path) -> int:
    """Bytes of the tensors of a file."""
    return sum(tensor.nbytes for tensor in load_file(file).values())


def test_an_unknown_gpu_is_an_error() -> None:
    with pytest.raises(SettingError, match="--tflops"):
        known_device("abacus")
    device = known_device("H200")
    assert device is DEVICES["h200"]


@pytest.mark.parametrize(
    ("preset", "vocab_size", "max_length", "measured"),
    [
        ("small", 16_000, 512, 150e6 / 108),
        ("modern", 16_000, 512, 155e6 / 100),
        ("gpt2-small", 50_257, 1_024, 495_102),
        ("lab", 50_001, 256, 3.02e6),
    ],
)
def test_the_table_of_the_h200_gives_back_what_was_measured(
    preset: str, vocab_size: int, max_length: int, measured: float
) -> None:
    base = ModelSettings(preset=preset).shape(vocab_size=vocab_size, max_length=max_length)  # type: ignore[arg-type]
    run = replace(RUN, precision="bf16", objective="causal", gpus=1, max_length=max_length)
    speed = Speed(DEVICES["h200"].teraflops(base, run), "table")
    assert estimate_run(base, run, speed).tokens_per_second == pytest.approx(measured, rel=0.05)


def test_a_wider_base_is_not_slower_per_operation() -> None:
    widths = (96, 384, 2_400)
    bases = [ModelSettings(preset="gpt2-small", hidden_size=width).shape(vocab_size=1_000) for width in widths]
    speeds = [DEVICES["h200"].teraflops(base, RUN) for base in bases]
    assert speeds == sorted(speeds)
    assert speeds[0] >= DEVICES["h200"].layers[0][1], "narrower ones have the speed of the narrowest"
