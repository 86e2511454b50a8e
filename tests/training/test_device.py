"""The number format of training and of evaluation."""

import logging

import pytest
import torch

from headswap.training import device as machine_module
from headswap.training.config import MachineSettings
from headswap.training.device import Machine


@pytest.mark.parametrize(
    ("settings", "width", "has_bf16", "precision"),
    [
        ({}, 200, True, "bf16"),
        ({}, 200, False, "fp32"),
        ({}, 64, True, "fp32"),
        ({"precision": "fp32"}, 200, True, "fp32"),
        ({"precision": "bf16"}, 64, False, "bf16"),
        ({"fast": "off"}, 200, True, "fp32"),
    ],
)
def test_precision_on_a_cpu(
    settings: dict[str, str], width: int, has_bf16: bool, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_module, "has_native_bf16", lambda: has_bf16)
    machine = Machine(MachineSettings(device="cpu", threads=1, **settings))
    machine.resolve_precision(width)
    assert machine.precision == precision
    Machine(MachineSettings(device="cpu", threads=1))  # allows fast kernels again


def test_a_cpu_trains_in_bf16_evaluates_in_fp32_and_logs_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(machine_module, "has_native_bf16", lambda: True)
    machine = Machine(MachineSettings(device="cpu", threads=1))
    with caplog.at_level(logging.INFO, logger="headswap"):
        machine.resolve_precision(256)
    one = torch.ones(2, 2)
    with machine.autocast():
        assert (one @ one).dtype == torch.bfloat16
    with machine.scoring():
        assert (one @ one).dtype == torch.float32
    assert len(caplog.records) == 1
    assert "bf16" in caplog.text


def test_with_precision_bf16_evaluation_is_in_bf16_too() -> None:
    machine = Machine(MachineSettings(device="cpu", threads=1, precision="bf16"))
    with machine.scoring():
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.bfloat16
