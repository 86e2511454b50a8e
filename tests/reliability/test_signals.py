"""SIGTERM and SIGHUP, also of a terminal that is closed: a training and a study save, exit, and can be resumed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from headswap.training.checkpoint import find_checkpoints
from reliability.harness import FINETUNE, PRETRAIN, Job
from reliability.runs import differences, write_files
from study_fixture import SHAPE, write_unique

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="Windows has no SIGHUP")]
ENVIRONMENT = {"OMP_NUM_THREADS": "1"}
LONGER = {"--max-steps": "200", "--num-train-epochs": "20", "--save-steps": "1000", "--eval-steps": "1000"}


def command(job: Job, files: Path, out: Path) -> list[str]:
    """A job with so many steps that a signal arrives before its end, and without a checkpoint before its end."""
    flags = [flag.partition("=")[::2] for flag in job.argv(files, out)]
    return [sys.executable, "-m", "headswap"] + [
        f"{name}={LONGER.get(name, value)}" if value else name for name, value in flags
    ]


def wait_until(is_true: Callable[[], bool], process: subprocess.Popen[Any]) -> None:
    """Return once something is true; fail if the process ends before."""
    while not is_true():
        assert process.poll() is None, "it ended before the signal"
        time.sleep(0.01)


def has_steps(out: Path) -> bool:
    """Whether a run has logged several steps."""
    file = out / "metrics.jsonl"
    return file.exists() and file.read_text().count("train_loss") > 5


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(tmp_path_factory.mktemp("signals") / "files")


@pytest.fixture(scope="module")
def whole(files: Path) -> Callable[[Job], Path]:
    """The result of a job that no signal interrupted."""

    @cache
    def run(job: Job) -> Path:
        out = files.parent / f"whole-{job.name}"
        subprocess.run(command(job, files, out), check=True, capture_output=True, env=os.environ | ENVIRONMENT)
        return out

    return run


@pytest.fixture(autouse=True)
def _hangup_is_not_ignored() -> Iterator[None]:
    """Started with nohup, these tests ignore SIGHUP, and so would the processes that they start."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADSWAP_CACHE", str(tmp_path / "cache"))
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("job", [PRETRAIN, FINETUNE], ids=lambda job: job.name)
def test_a_signal_saves_and_the_resumed_run_has_the_same_bits(
    job: Job, number: signal.Signals, files: Path, whole: Callable[[Job], Path], tmp_path: Path
) -> None:
    out = tmp_path / "out"
    process = subprocess.Popen(command(job, files, out), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: has_steps(out), process)
    process.send_signal(number)
    _, said = process.communicate()
    assert process.returncode == 130, said
    assert "all steps are saved. Resume with the same command and --resume." in said
    assert find_checkpoints(out / "checkpoints")
    assert not (out / "result.json").exists()
    subprocess.run([*command(job, files, out), "--resume"], check=True, capture_output=True)
    assert differences(whole(job), out) == []


@pytest.mark.usefixtures("environment")
def test_a_terminal_that_is_closed_loses_no_step(files: Path, whole: Callable[[Job], Path], tmp_path: Path) -> None:
    """The kernel sends SIGHUP, and every message to the terminal fails from then on."""
    pty = pytest.importorskip("pty")
    out = tmp_path / "out"
    line = [part for part in command(PRETRAIN, files, out) if part not in ("--quiet", "--json")]
    child, terminal = pty.fork()
    if child == 0:
        os.execv(line[0], line)
    while not has_steps(out):
        os.read(terminal, 1 << 16)  # raises if the process ends
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 130
    last = find_checkpoints(out / "checkpoints")[-1]
    assert f"step-{(out / 'metrics.jsonl').read_text().count('train_loss'):08d}" == last.name, "no step was lost"
    subprocess.run([*line, "--resume"], check=True, capture_output=True)
    assert differences(whole(PRETRAIN), out) == []


@pytest.mark.usefixtures("environment")
def test_a_training_under_nohup_survives_the_signal(files: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    line = command(PRETRAIN, files, out)
    process = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                               preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))  # fmt: skip
    wait_until(lambda: has_steps(out), process)
    process.send_signal(signal.SIGHUP)
    _, said = process.communicate()
    assert process.returncode == 0, said
    assert (out / "result.json").exists()


@pytest.mark.usefixtures("environment")
def test_a_study_saves_its_jobs_at_a_hangup_and_is_resumed(tmp_path: Path) -> None:
    train, test = tmp_path / "train.jsonl", tmp_path / "test.jsonl"
    for seed, file in enumerate((train, test), 1):
        write_unique(file, 60, seed=seed)

    def study(out: Path) -> list[str]:
        shape = [f"--{name.replace('_', '-')}={value}" for name, value in SHAPE.items()]
        return [sys.executable, "-m", "headswap", "study", f"--train={train}", f"--test={test}", f"--out={out}",
                "--arms=scratch", "--budgets=40", "--seeds=1", "--finetune.num-train-epochs=60", "--threads=1",
                "--finetune.logging-steps=1", "--max-length=24", "--vocab-size=300", "--device=cpu",
                *shape]  # fmt: skip

    subprocess.run(study(tmp_path / "whole"), check=True, capture_output=True)
    out = tmp_path / "out"
    process = subprocess.Popen(study(out), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: any(has_steps(folder) for folder in out.glob("runs/scratch-*")), process)
    process.send_signal(signal.SIGHUP)
    _, said = process.communicate()
    assert process.returncode == 130, said
    assert "The same command runs the rest." in said
    (run,) = out.glob("runs/scratch-*")
    assert find_checkpoints(run / "checkpoints"), "the job was saved"
    subprocess.run(study(out), check=True, capture_output=True)
    other = tmp_path / "whole" / "runs" / run.name
    for name in ("predictions.npz", "bundle/model.safetensors"):
        assert (run / name).read_bytes() == (other / name).read_bytes()


@pytest.mark.usefixtures("environment")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_another_verb_is_interrupted_and_leaves_nothing(number: signal.Signals, tmp_path: Path) -> None:
    line = [sys.executable, "-m", "headswap", "tokenizer", "-", f"--out={tmp_path / 'new' / 'tokenizer.json'}"]
    with subprocess.Popen(
        line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        status = Path(f"/proc/{process.pid}/status")
        if not status.exists():
            pytest.skip("reads /proc to see that the process waits for its input")
        maps = Path(f"/proc/{process.pid}/maps")
        wait_until(lambda: "tokenizers" in maps.read_text() and "(sleeping)" in status.read_text(), process)
        process.send_signal(number)
        _, said = process.communicate()
    assert process.returncode == 130
    assert said == "headswap: Interrupted.\n"
    assert not list((tmp_path / "new").glob("*"))
