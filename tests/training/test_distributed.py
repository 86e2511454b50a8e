"""Two processes have the losses of one, also in steps in which one of them has no rows."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from headswap.training.distributed import Processes, start_processes
from tiny import sentences, write_labelled

TESTS = Path(__file__).parents[1]
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(TESTS)}


def test_a_single_process_is_the_first_and_sends_nothing() -> None:
    processes = start_processes(torch.device("cpu"))
    assert processes == Processes(0, 1)
    assert processes.is_first
    value = torch.tensor(3.0)
    assert processes.sum(value) is value
    assert processes.from_first(lambda: 7) == 7
    assert processes.first_then_all(lambda: "made") == "made"
    assert processes.map(lambda number: number * 2, [3, 1, 2]) == [6, 2, 4]
    model = torch.nn.Linear(2, 2)
    assert processes.wrap(model) is model
    assert not Processes(1, 2).is_first


def two_processes(*arguments: str, stdin: str = "") -> str:
    line = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", *arguments]
    done = subprocess.run(line, env=os.environ | ENVIRONMENT, capture_output=True, text=True, input=stdin)
    assert done.returncode == 0, done.stderr[-3_000:]
    return done.stdout


def losses(run: Path) -> list[tuple[int, str, float]]:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [(line["step"], name, line[name]) for line in lines for name in ("train_loss", "eval_loss") if name in line]


@pytest.mark.slow
@pytest.mark.parametrize("accumulation", [1, 2])
def test_two_processes_have_the_losses_of_one(tmp_path: Path, accumulation: int) -> None:
    (tmp_path / "corpus.txt").write_text("".join(f"{text}\n" for text, _ in sentences(42)), encoding="utf-8")
    # 41 rows in batches of 8: steps 6 and 12 have one row, so the second process has none.
    given = [
        "-m", "headswap", "pretrain", str(tmp_path / "corpus.txt"), "--layout=documents", "--max-steps=13",
        "--batch-size=8", "--preset=lab", "--hidden-size=32", "--num-hidden-layers=2", "--num-attention-heads=2",
        "--intermediate-size=32", "--max-length=24", "--device=cpu", "--threads=1", "--logging-steps=1",
        "--eval-steps=5", "--quiet", f"--gradient-accumulation-steps={accumulation}",
    ]  # fmt: skip
    subprocess.run([sys.executable, *given, f"--out={tmp_path / 'one'}"], env=os.environ | ENVIRONMENT, check=True)
    two_processes(*given, f"--out={tmp_path / 'two'}")
    text = (tmp_path / "corpus.txt").read_text(encoding="utf-8")
    piped = [part if part != str(tmp_path / "corpus.txt") else "-" for part in given]
    two_processes(*piped, f"--out={tmp_path / 'piped'}", stdin=text)
    two_processes(*given, "--parallel=fsdp", f"--out={tmp_path / 'sharded'}")
    one, two = losses(tmp_path / "one"), losses(tmp_path / "two")
    sharded = losses(tmp_path / "sharded")
    assert [line[:2] for line in sharded] == [line[:2] for line in one]
    assert [line[2] for line in sharded] == pytest.approx([line[2] for line in one], abs=1e-5)
    assert losses(tmp_path / "piped") == two, "one process reads standard input, both train on it"
    assert [line[:2] for line in one] == [line[:2] for line in two]
    assert [line[2] for line in two] == pytest.approx([line[2] for line in one], abs=1e-5)
    results: list[dict[str, Any]] = [
        json.loads((tmp_path / name / "result.json").read_text()) for name in ("one", "two")
    ]
    assert results[0]["tokens"] == results[1]["tokens"]
    assert json.loads((tmp_path / "two" / "environment.json").read_text())["processes"] == 2


SCRIPT = """
import sys
from pathlib import Path
import numpy as np
import torch
from safetensors.torch import save_file
from headswap.model.text_model import build_model
from headswap.training.config import MachineSettings, OptimizerSettings
from headswap.training.distributed import start_processes, stop_processes
from headswap.training.gradients import LossModule
from headswap.training.loop import train
from headswap.training.device import Machine
from headswap.training.optimizer import make_optimizer
from tiny import random_sequences, tiny_batch, tiny_model_shape, tiny_objective


def num_gloo_threads():
    return sum("gloo" in file.read_text() for file in Path("/proc/self/task").glob("*/comm"))


class Source:
    def micro_batches(self, step, *, count):
        lengths = [3, 17, 8, 2, 11][: 1 if step % 3 == 2 else 5]
        rows = random_sequences(lengths, seed=step)
        parts = [part for part in np.array_split(np.arange(len(rows)), count) if len(part)]
        return [tiny_batch(name, [rows[row] for row in part], step=step, first_document=part[0]) for part in parts]


name = sys.argv[3]
objective = tiny_objective(name)
shape = tiny_model_shape(direction=objective.direction, type_vocab_size=objective.num_segments)
machine = Machine(MachineSettings(device="cpu", threads=1))
processes = start_processes(machine.device)
settings = OptimizerSettings(
    learning_rate=1e-2, warmup_steps=0, seed=5, gradient_accumulation_steps=int(sys.argv[2]), optimizer=sys.argv[4]
)
model = build_model(shape.changed(pair_head=objective.num_segments > 0), seed=1).double()
records = train(
    LossModule(model, objective), make_optimizer(model, settings), Source(), settings=settings, machine=machine,
    processes=processes, first_step=0, total_steps=6,
)
losses = [record.loss.double() for record in records]
if processes.is_first:
    save_file({**model.state_dict(), "losses": torch.stack(losses)}, sys.argv[1])
before = num_gloo_threads()
stop_processes()
if processes.world > 1:
    assert num_gloo_threads() < before, "the threads of the default group still run"
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="counts threads in /proc, which only Linux has")
@pytest.mark.parametrize(
    ("objective", "optimizer"),
    [("causal", "adamw"), ("causal", "muon"), ("masked+nsp", "adamw"), ("causal+masked", "adamw")],
)
def test_two_processes_have_the_weights_of_one_in_float64(tmp_path: Path, objective: str, optimizer: str) -> None:
    from safetensors.torch import load_file

    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    one = [sys.executable, str(script), str(tmp_path / "one"), "1", objective, optimizer]
    subprocess.run(one, env=os.environ | ENVIRONMENT, check=True)
    two_processes(str(script), str(tmp_path / "two"), "1", objective, optimizer)
    two_processes(str(script), str(tmp_path / "four"), "2", objective, optimizer)
    expected = load_file(tmp_path / "one")
    for name in ("two", "four"):
        found = load_file(tmp_path / name)
        for tensor, value in expected.items():
            torch.testing.assert_close(
                found[tensor].double(), value.double(), atol=1e-6, rtol=0, msg=f"{name}: {tensor}"
            )


@pytest.mark.slow
def test_finetuning_with_two_processes_has_the_losses_of_one_and_prints_once(tmp_path: Path) -> None:
    write_labelled(tmp_path / "train.jsonl", 210)
    write_labelled(tmp_path / "test.jsonl", 20, seed=2)
    given = [
        "-m", "headswap", "finetune", "--base=scratch", f"--train={tmp_path / 'train.jsonl'}", "--batch-size=16",
        f"--test={tmp_path / 'test.jsonl'}", "--num-train-epochs=2", "--hidden-size=32", "--num-hidden-layers=1",
        "--num-attention-heads=2", "--intermediate-size=32", "--max-length=24", "--dropout=0", "--head-dropout=0",
        "--device=cpu", "--threads=1", "--logging-steps=1", "--quiet", "--json",
    ]  # fmt: skip
    one_line = [sys.executable, *given, f"--out={tmp_path / 'one'}"]
    subprocess.run(one_line, env=os.environ | ENVIRONMENT, check=True, capture_output=True)
    out = two_processes(*given, f"--out={tmp_path / 'two'}")
    assert len(out.splitlines()) == 1
    assert json.loads(out)["baselines"]["tfidf"]
    one, two = losses(tmp_path / "one"), losses(tmp_path / "two")
    assert [line[:2] for line in one] == [line[:2] for line in two]
    assert [line[2] for line in two] == pytest.approx([line[2] for line in one], abs=1e-5)
