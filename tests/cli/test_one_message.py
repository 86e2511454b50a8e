"""Under torchrun a mistake of the user is printed once, and all processes end with its exit code."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import headswap
from headswap.cli.exit_codes import run
from headswap.cli.one_message import ERROR_FILE, INTERRUPTED, is_printed_here


@pytest.fixture
def as_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Makes this process one of two that torchrun started."""

    def become(rank: int) -> None:
        (tmp_path / str(rank)).mkdir(exist_ok=True)
        environment = {"WORLD_SIZE": "2", "RANK": str(rank), ERROR_FILE: str(tmp_path / str(rank) / "error.json")}
        for name, value in environment.items():
            monkeypatch.setenv(name, value)

    return become


def test_a_process_alone_prints_every_time(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        assert run(["compare", "one"]) == 2
        assert "compare needs at least two run folders" in capsys.readouterr().err


def test_of_two_processes_the_first_that_fails_prints(as_process, capsys: pytest.CaptureFixture[str]) -> None:
    for rank, printed in ((1, True), (0, False)):
        as_process(rank)
        assert run(["compare", "one"]) == 2
        assert ("compare needs at least two run folders" in capsys.readouterr().err) == printed


def test_a_message_that_one_process_has_alone_is_printed(as_process) -> None:
    as_process(0)
    assert is_printed_here("a.txt does not exist.")
    as_process(1)
    assert is_printed_here("b.txt does not exist.")


def test_a_process_that_is_stopped_because_another_failed_says_nothing(as_process) -> None:
    as_process(1)
    assert is_printed_here("a.txt does not exist.")
    as_process(0)
    assert not is_printed_here(INTERRUPTED)


def test_an_interruption_of_all_is_printed_once(as_process) -> None:
    as_process(0)
    assert is_printed_here(INTERRUPTED)
    as_process(1)
    assert not is_printed_here(INTERRUPTED)


def test_without_a_shared_folder_the_first_process_prints(as_process, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank in (0, 1):
        as_process(rank)
        monkeypatch.delenv(ERROR_FILE)
        assert is_printed_here("a.txt does not exist.") == (rank == 0)


@pytest.mark.slow
def test_torchrun_prints_one_sentence_and_no_traceback_of_headswap(tmp_path: Path) -> None:
    line = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "-m", "headswap", "pretrain"]
    line += [str(tmp_path / "nowhere.txt"), "--out", str(tmp_path / "out"), "--max-steps", "1"]
    done = subprocess.run(line, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    said = [text for text in done.stderr.splitlines() if text.startswith("headswap:")]
    assert len(said) == 1, done.stderr
    assert "nowhere.txt does not exist" in said[0]
    package = str(Path(headswap.__file__).parent)
    assert not [text for text in done.stderr.splitlines() if package in text and text.lstrip().startswith("File ")]
