"""One place of a cluster: the worker of this machine, and machines that cannot run a job. The names of back ends."""

import os
from pathlib import Path
from typing import Any

import pytest

from headswap.core.errors import SettingError
from headswap.core.surroundings import Surroundings
from headswap.study.executors import node
from headswap.study.executors.backend import Request
from headswap.study.executors.choose import make_backend
from headswap.study.executors.local import LocalWorkers
from headswap.study.executors.node import Node


class FakeJob:
    def __init__(self, codes: list[int | None]) -> None:
        self.codes, self.num_stops = codes, 0

    def exit_code(self) -> int | None:
        return self.codes.pop(0)

    def ask_to_stop(self) -> None:
        self.num_stops += 1


class FakePool:
    """Jobs that end with 7 at the second look."""

    def __init__(self, parallel: int) -> None:
        self.given: list[tuple[Request, str, str | None]] = []
        self.job = FakeJob([None, 7])
        self.on_wait: Any = lambda: None

    def start(self, request: Request) -> FakeJob:
        self.given.append((request, os.getcwd(), os.environ.get("HEADSWAP_CACHE")))
        return self.job

    def wait(self, seconds: float) -> None:
        self.on_wait()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(node, "LocalWorkers", FakePool)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.json").write_text("{}")
    return tmp_path


def run(one: Node, folder: Path) -> tuple[int, str | None]:
    return one.run(str(folder / "job.json"), str(folder / "job.log"), 2, "{}")


def test_a_job_runs_in_the_folder_and_with_the_variables_of_its_study(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADSWAP_CACHE", "of the study")
    one: Any = Node(Surroundings())
    monkeypatch.chdir("/")
    monkeypatch.setenv("HEADSWAP_CACHE", "of the machine")
    assert run(one, place) == (7, None)
    assert one.pool.given == [(Request(place / "job.json", place / "job.log", 2, "{}"), str(place), "of the study")]


def test_a_job_is_stopped_while_it_runs_and_no_other_starts(place: Path) -> None:
    one: Any = Node(Surroundings())
    one.pool.on_wait = one.stop
    run(one, place)
    assert one.pool.job.num_stops == 1
    assert run(one, place) == (130, None)
    assert len(one.pool.given) == 1


def test_a_machine_with_other_versions_or_without_the_folder_says_so(place: Path) -> None:
    code, problem = run(Node(Surroundings(versions=("0.0.9", "2.0", "0.1"))), place)
    assert code == 2
    assert "but headswap 0.0.9, torch 2.0 and tokenizers 0.1 are needed. Install the same versions" in str(problem)
    code, problem = run(Node(Surroundings()), place / "elsewhere")
    assert code == 2
    assert f"cannot read {place / 'elsewhere' / 'job.json'}. The outputs, the data" in str(problem)


def test_the_back_end_has_the_name_of_the_flag() -> None:
    assert isinstance(make_backend("local", parallel=2, cores=2, device="cpu"), LocalWorkers)
    for wrong in ("rays", "local:2", ""):
        with pytest.raises(SettingError, match=r"is not allowed\. Give one of: local, ray, ray:ADDRESS, slurm"):
            make_backend(wrong, parallel=1, cores=1)
