"""`headswap estimate`."""

import json

import pytest

from cli_calls import call, call_wrong
from headswap.pretraining import time_budget


def test_estimate_of_a_preset_on_several_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    shown = call(capsys, "estimate", "--preset=gpt2-small", "--tokens=2e9", "--gpus=8", "--parallel=fsdp")
    assert "124,439,808" in shown
    assert "projection from NVIDIA H200, measured on 2026-11-16" in shown
    found = json.loads(call(capsys, "estimate", "--preset=gpt2-small", "--tokens=2e9", "--gpus=8", "--json"))
    assert found["labels"]["seconds"] == "projection"
    assert found["memory_per_gpu_total"] == pytest.approx(sum(found["memory_per_gpu"].values()))


def test_estimate_from_a_measured_step(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_budget, "PROBE_SECONDS", 0.0)
    flags = [
        "--hidden-size=32", "--num-hidden-layers=1", "--num-attention-heads=2", "--intermediate-size=32",
        "--vocab-size=100", "--max-length=16", "--tokens=1000", "--measure", "--precision=fp32",
    ]  # fmt: skip
    found = json.loads(call(capsys, "estimate", *flags, "--json"))
    assert found["tokens_per_second"] == pytest.approx(found["measured"]["tokens_per_second"])
    assert found["labels"]["seconds"] == "from the measured step"
    assert "memory of the measured steps" in call(capsys, "estimate", *flags)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--tokens=0"], "--tokens 0 is not allowed"),
        (["--tokens=1e9", "--gpus=0"], "--gpus 0 is not allowed"),
        (["--tokens=1e9", "--gpu=abacus"], "--gpu abacus is not in the table"),
        (["--tokens=1e9", "--precision=fp32"], "--tflops for fp32"),
        (["--tokens=1e9", "--measure", "--tflops=3"], "both given"),
        (["--tokens=1e9", "--norm=post"], "--norm: no effect in headswap estimate."),
    ],
)
def test_values_that_are_not_allowed(capsys: pytest.CaptureFixture[str], flags: list[str], message: str) -> None:
    assert message in call_wrong(capsys, "estimate", *flags)
