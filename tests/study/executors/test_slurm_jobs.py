"""Jobs on Slurm, with stand-ins for submitit and squeue."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headswap.core.errors import MissingExtraError, RunError, SettingError
from headswap.core.surroundings import Surroundings
from headswap.study.executors import slurm_jobs
from headswap.study.executors.backend import Request
from headswap.study.executors.slurm_jobs import SlurmJobs, run_on_node


class FakeSlurmJob:
    """A job in Slurm; it writes its result when the test says so."""

    def __init__(self, folder: Path, job_id: str, tasks: Any = None) -> None:
        self.job_id, self.num_cancelled = job_id, 0
        self.paths = SimpleNamespace(result_pickle=folder / f"{job_id}_result.pkl")
        self.value: Any = None

    def end(self, value: Any) -> None:
        self.value = value
        self.paths.result_pickle.write_bytes(b"")

    def exception(self) -> Exception | None:
        return self.value if isinstance(self.value, Exception) else None

    def result(self) -> Any:
        return self.value

    def cancel(self, *, check: bool) -> None:
        self.num_cancelled += 1


class Slurm:
    """Submitted jobs, their options and their states."""

    def __init__(self) -> None:
        self.jobs: list[FakeSlurmJob] = []
        self.calls: list[tuple[Any, ...]] = []
        self.options: dict[str, Any] = {}
        self.states: dict[str, str] = {}
        self.is_down = False
        self.num_failures = 0
        """So many calls of squeue fail."""
        self.slept: list[float] = []
        self.now = 0.0
        slurm = self

        class Executor:
            def __init__(self, folder: Path) -> None:
                self.folder = folder

            def update_parameters(self, **options: Any) -> None:
                slurm.options = options

            def submit(self, *call: Any) -> FakeSlurmJob:
                slurm.calls.append(call)
                slurm.jobs.append(FakeSlurmJob(self.folder, str(len(slurm.jobs) + 1)))
                slurm.states[slurm.jobs[-1].job_id] = "PENDING"
                return slurm.jobs[-1]

        self.module = SimpleNamespace(SlurmExecutor=Executor, SlurmJob=FakeSlurmJob)

    def squeue(self, command: list[str], **_: Any) -> Any:
        assert command[0] == "squeue"
        lines = "".join(f"{number} {state}\n" for number, state in self.states.items())
        self.num_failures -= 1
        return subprocess.CompletedProcess(command, int(self.is_down or self.num_failures >= 0), lines, "no answer")


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Slurm:
    found = Slurm()
    monkeypatch.setitem(sys.modules, "submitit", found.module)
    monkeypatch.setattr(slurm_jobs, "subprocess", SimpleNamespace(run=found.squeue))

    def monotonic() -> float:
        found.now += 10  # every look is later than the last answer of squeue
        return found.now

    monkeypatch.setattr(slurm_jobs, "time", SimpleNamespace(monotonic=monotonic, sleep=found.slept.append))
    return found


@pytest.fixture
def request_(tmp_path: Path) -> Request:
    (tmp_path / "job.json").write_text("{}")
    return Request(tmp_path / "job.json", tmp_path / "job.log", 3, "{}")


def test_only_paths_and_numbers_are_submitted(slurm: Slurm, request_: Request) -> None:
    job = SlurmJobs("short", device="cuda").start(request_)
    assert slurm.options == {"job_name": "job", "cpus_per_task": 3, "gres": "gpu:1", "partition": "short"}
    function, place, *arguments = slurm.calls[0]
    assert function is run_on_node
    assert place == Surroundings()
    assert arguments == [str(request_.file), str(request_.log), 3, "{}"]
    slurm.states["1"] = "RUNNING"
    assert job.exit_code() is None
    slurm.jobs[0].end(7)
    assert job.exit_code() == 7
    assert not request_.file.with_suffix(".slurm").exists()


@pytest.mark.parametrize("state", ["NODE_FAIL", "PREEMPTED"])
def test_a_lost_job_is_submitted_again(slurm: Slurm, request_: Request, state: str) -> None:
    job = SlurmJobs(None).start(request_)
    slurm.states["1"] = state
    assert job.exit_code() is None
    slurm.jobs[1].end(0)
    assert job.exit_code() == 0


@pytest.mark.parametrize(("state", "is_again"), [("TIMEOUT", True), ("PREEMPTED", True), ("CANCELLED", False)])
def test_a_job_that_slurm_asked_to_stop_is_submitted_again(
    slurm: Slurm, request_: Request, state: str, is_again: bool
) -> None:
    job = SlurmJobs(None).start(request_)
    slurm.states["1"] = state
    slurm.jobs[0].end(130)
    assert job.exit_code() == (None if is_again else 130)
    assert len(slurm.jobs) == 1 + is_again


def test_a_job_that_slurm_has_forgotten_is_submitted_again_after_a_while(slurm: Slurm, request_: Request) -> None:
    job = SlurmJobs(None).start(request_)
    slurm.states.clear()
    assert job.exit_code() is None
    assert len(slurm.jobs) == 1, "its result may still appear"
    for _ in range(8):
        job.exit_code()
    assert len(slurm.jobs) == 2


def test_a_job_that_slurm_ended_fails_with_the_reason_in_its_log(slurm: Slurm, request_: Request) -> None:
    job = SlurmJobs(None).start(request_)
    slurm.states["1"] = "OUT_OF_MEMORY"
    assert job.exit_code() == 1
    assert request_.log.read_text() == "Slurm ended the job 1 with the state OUT_OF_MEMORY.\n"
    broken = SlurmJobs(None).start(request_)
    slurm.jobs[1].end(RuntimeError("trace\nno module named headswap"))
    assert broken.exit_code() == 1
    assert request_.log.read_text() == "no module named headswap\n"


def test_the_next_process_of_a_study_takes_running_jobs_over(slurm: Slurm, request_: Request) -> None:
    SlurmJobs(None).start(request_)
    slurm.states["1"] = "RUNNING"
    again = SlurmJobs(None).start(request_)
    assert len(slurm.jobs) == 1
    again._job.end(0)
    assert again.exit_code() == 0
    request_.file.with_suffix(".slurm").write_text("1")
    slurm.states["1"] = "CANCELLED"
    SlurmJobs(None).start(request_)
    assert len(slurm.jobs) == 2, "one that has ended is submitted again"


def test_a_squeue_that_fails_at_a_takeover_submits_nothing_twice(
    slurm: Slurm, request_: Request, caplog: pytest.LogCaptureFixture
) -> None:
    SlurmJobs(None).start(request_)
    slurm.states["1"] = "RUNNING"
    slurm.num_failures = 2
    SlurmJobs(None).start(request_)
    assert len(slurm.jobs) == 1
    assert [seconds for seconds in slurm.slept if seconds] == [1, 2]
    assert "squeue failed (no answer); it is called again after 1 seconds" in caplog.text
    slurm.is_down = True
    with pytest.raises(RunError, match=r"squeue failed 6 times \(no answer\).*Run the same command again"):
        SlurmJobs(None).start(request_)
    assert len(slurm.jobs) == 1


def test_a_stop_request_cancels_the_job(slurm: Slurm, request_: Request) -> None:
    job = SlurmJobs(None).start(request_)
    job.ask_to_stop()
    assert slurm.jobs[0].num_cancelled == 1
    slurm.states["1"] = "CANCELLED"
    assert job.exit_code() == 130


def test_a_controller_that_does_not_answer_ends_no_job(
    slurm: Slurm, request_: Request, caplog: pytest.LogCaptureFixture
) -> None:
    job = SlurmJobs(None).start(request_)
    slurm.is_down = True
    assert job.exit_code() is None
    assert "squeue failed (no answer)" in caplog.text


def test_what_a_slurm_job_does(request_: Request, monkeypatch: pytest.MonkeyPatch) -> None:
    class FakeNode:
        def __init__(self, place: Surroundings) -> None:
            self.place = place

        def run(self, *arguments: Any) -> tuple[int, str]:
            assert arguments == (str(request_.file), str(request_.log), 3, None)
            return 2, "The machine cannot read it."

        def close(self) -> None:
            pass

    monkeypatch.setattr(slurm_jobs, "Node", FakeNode)
    monkeypatch.setattr(slurm_jobs, "signal", SimpleNamespace(SIGTERM=15, signal=lambda *_: None))
    assert run_on_node(Surroundings(), str(request_.file), str(request_.log), 3, None) == 2
    assert request_.log.read_text() == "The machine cannot read it.\n"


def test_without_the_package_or_without_slurm(slurm: Slurm, request_: Request, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_slurm(folder: Path) -> None:
        raise RuntimeError('Could not detect "srun", are you indeed on a slurm cluster?')

    monkeypatch.setattr(slurm.module, "SlurmExecutor", no_slurm)
    with pytest.raises(SettingError, match="The executor slurm cannot be used: Could not detect"):
        SlurmJobs(None).start(request_)
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(MissingExtraError, match=r"headswap\[slurm\]"):
        SlurmJobs(None)
