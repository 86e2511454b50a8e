"""Two processes under torchrun, one or all killed with SIGKILL: resumed, they have bitwise the same results."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headswap.core.current_folder import HOME
from headswap.training import checkpoint as checkpoints
from reliability.runs import SHAPE, as_flags, differences, write_files

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="waits for processes by pidfd, which only Linux has"),
]
TESTS = Path(__file__).parents[1]
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
TRAP = str(Path(__file__).with_name("one_of_two.py"))
DEADLINE = 120.0  # seconds until a process must have ended; only reached if it survives


class Pair:
    """A pre-training by two processes, in its own folders."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.files = folder, write_files(folder / "files")
        self.environment = os.environ | {
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join([str(TESTS), HOME]),
            "HEADSWAP_CACHE": str(folder / "cache"),
        }  # fmt: skip

    def command(self, out: str) -> list[str]:
        return [
            "pretrain", str(self.files / "corpus.txt"), f"--out={self.folder / out}", *as_flags(SHAPE),
            "--max-steps=24", "--batch-size=8", "--eval-steps=8", "--logging-steps=1", "--save-steps=5",
            "--held-out-fraction=0.05", "--quiet",
        ]  # fmt: skip

    def finish(self, out: str, *more: str) -> Path:
        line = [*TORCHRUN, "-m", "headswap", *self.command(out), *more]
        done = subprocess.run(line, env=self.environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3_000:]
        return self.folder / out

    def start(self, out: str, what: str, step: int) -> subprocess.Popen[str]:
        line = [*TORCHRUN, TRAP, what, str(step), *self.command(out)]
        return subprocess.Popen(
            line, env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    pair = Pair(tmp_path_factory.mktemp("pair"))
    pair.finish("whole")
    return pair


def is_running(process: int) -> bool:
    state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    return state not in "ZX"


def kill_and_wait(processes: list[int]) -> None:
    """Send SIGKILL to each process and wait until it has ended."""
    handles = [os.pidfd_open(process) for process in processes]
    for process in processes:
        assert is_running(process), f"{process} had ended before it was killed"
        os.kill(process, signal.SIGKILL)
    for handle in handles:
        assert select.select([handle], [], [], DEADLINE)[0], "a killed process is still running"
        os.close(handle)


@pytest.mark.parametrize(("step", "kept"), [(3, []), (13, [5, 10])], ids=["no checkpoint yet", "two checkpoints"])
def test_torchrun_and_both_its_processes_killed_at_once(pair: Pair, step: int, kept: list[int]) -> None:
    out = f"killed-{step}"
    torchrun = pair.start(out, "hold", step)
    assert torchrun.stdout is not None
    workers, reached = [], None
    for line in torchrun.stdout:
        word, _, number = line.partition(" ")
        if word == "process":
            workers.append(int(number))
        elif word == "at":
            reached = int(number)
        if reached is not None and len(workers) == 2:
            break
    assert reached == step, "it ended before it was killed"
    kill_and_wait([torchrun.pid, *workers])
    torchrun.wait()
    torchrun.stdout.close()
    found = checkpoints.find_checkpoints(pair.folder / out / "checkpoints")
    assert [checkpoints.step_of(path) for path in found] == kept
    assert differences(pair.folder / "whole", pair.finish(out, "--resume")) == []


def test_one_of_two_processes_killed_ends_both_and_they_are_resumed(pair: Pair) -> None:
    torchrun = pair.start("one-killed", "die", 13)
    assert torchrun.stdout is not None
    workers = [int(line.split()[1]) for line in torchrun.stdout if line.startswith("process")]
    assert torchrun.wait() != 0
    torchrun.stdout.close()
    assert len(workers) == 2
    assert not any(Path(f"/proc/{worker}").exists() and is_running(worker) for worker in workers)
    found = checkpoints.find_checkpoints(pair.folder / "one-killed" / "checkpoints")
    assert [checkpoints.step_of(path) for path in found] == [5, 10]
    assert differences(pair.folder / "whole", pair.finish("one-killed", "--resume")) == []
