"""A measured step: its memory is near the formula, and its speed is that of the loop."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headswap.core.current_folder import HOME
from headswap.pretraining import time_budget
from headswap.pretraining.measured_step import RandomRows, measure_step
from headswap.pretraining.run_cost import MEASURED, EstimatedRun, estimate_run
from headswap.training.config import MachineSettings
from headswap.training.device import Machine
from tiny import tiny_shape

CODE = """
import json
from headswap.model.shape import ModelSettings
from headswap.pretraining import time_budget
from headswap.pretraining.measured_step import measure_step
from headswap.pretraining.run_cost import EstimatedRun, estimate_run
from headswap.training.config import MachineSettings
from headswap.training.device import Machine

time_budget.PROBE_SECONDS = 0.0
ratios = []
for vocabulary, batch in ((4_000, 4), (4_000, 16)):
    base = ModelSettings(preset="small", num_hidden_layers=2).shape(vocab_size=vocabulary, max_length=128)
    run = EstimatedRun(tokens=1e6, batch_size=batch, precision="fp32", device="cpu")
    found = measure_step(base, run, Machine(MachineSettings(device="cpu", threads=1, precision="fp32")))
    ratios.append((found.peak_memory_bytes, sum(estimate_run(base, run, found.speed).memory_per_gpu.values())))
print(json.dumps(ratios))
"""


def test_the_measured_step_gives_the_speed_of_its_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_budget, "PROBE_SECONDS", 0.05)
    base = tiny_shape("small", vocab_size=300)
    run = EstimatedRun(tokens=64_000, batch_size=8, max_length=32, precision="fp32", device="cpu")
    found = measure_step(base, run, Machine(MachineSettings(device="cpu", threads=1, precision="fp32")))
    assert found.timed.tokens == found.timed.steps * 8 * 32
    cost = estimate_run(base, run, found.speed)
    assert cost.steps == 250
    assert cost.seconds == pytest.approx(250 * found.step_seconds)
    assert cost.labels["seconds"] == MEASURED


def test_random_rows_have_the_same_size_in_every_step() -> None:
    rows = RandomRows(50, 6, 10, 0.15)
    for step in range(3):
        parts = rows.micro_batches(step, count=4)
        assert [part.num_tokens for part in parts] == [20, 20, 10, 10]
        assert [part.num_targets for part in parts] == [3, 3, 2, 2]
    assert RandomRows(50, 2, 10, 1.0).micro_batches(0, count=1)[0].num_targets == 20


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read as Linux reports it")
def test_memory_of_measured_steps_is_near_the_formula(tmp_path: Path) -> None:
    # A process starts with the peak of the process that started it, so a shell is between pytest and Python.
    line = ["sh", "-c", '"$0" -c "$1"; exit $?', sys.executable, CODE]
    done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, env=os.environ | {"PYTHONPATH": HOME})
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)
    assert 0.5 < first[0] / first[1] < 2
    # The peak of a process only grows, so the second measurement is what the larger batch needs in addition.
    assert 0.5 < (first[0] + second[0]) / second[1] < 2
