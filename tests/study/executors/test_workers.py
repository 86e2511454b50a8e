"""Warm workers: the results of jobs run alone, kills, kinds of workers, GPUs, and the state between jobs."""

import json
import os
import random
import subprocess
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from boxed import tiny_base
from headswap.core.current_folder import new_python
from headswap.kernels import policy
from headswap.study.executors import local
from headswap.study.executors.backend import Request
from headswap.study.executors.choose import default_jobs, make_backend
from headswap.study.executors.clean_state import CleanState
from headswap.study.executors.job_queue import Executor
from headswap.study.executors.local import LocalWorkers, thread_limits, visible_gpus
from headswap.study.executors.worker import missing_gpu
from headswap.study.jobs.estimate import Estimator
from headswap.study.jobs.planned_jobs import Job
from headswap.tokens.tokenizer import Tokenizer
from study_fixture import RecordingWatcher, planned, sections_of


class Pids(RecordingWatcher):
    """Keeps the processes of every job; the job of one name is killed whenever it runs."""

    def __init__(self, victim: str | None = None) -> None:
        super().__init__()
        self.executor: Executor | None = None
        self.pids: dict[str, list[int]] = {}
        self.victim = victim

    def on_wait(self, running: list[Job]) -> None:
        assert self.executor is not None
        assert isinstance(self.executor.backend, LocalWorkers)
        (worker,) = [worker for worker in self.executor.backend.workers if worker.is_running] or [None]
        for job in running:
            if worker is None:  # it has just ended
                continue
            known = self.pids.setdefault(job.name, [])
            known += [worker.process.pid] if worker.process.pid not in known else []
            if job.name == self.victim:
                worker.process.kill()


def run_here(out: Path, prepared: Any, jobs: list[Job], seen: Pids) -> Any:
    out.mkdir(exist_ok=True)
    seen.executor = Executor(
        out, Estimator(None, prepared), parallel=1, threads=1, keep="bundles", watcher=seen, device="cpu"
    )
    return seen.executor.run(jobs)


NO_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


@pytest.mark.slow
@pytest.mark.parametrize(
    "machine",
    [{"device": "cpu", "threads": 1},
     pytest.param({"device": "cuda", "threads": 1, "deterministic": True}, marks=[pytest.mark.gpu, NO_GPU])],
)  # fmt: skip
def test_a_worker_runs_all_jobs_and_they_have_the_bits_of_jobs_run_alone(
    tmp_path: Path, machine: dict[str, Any], tokenizer: Tokenizer
) -> None:
    """Before the last one, the worker trained a tokenizer, a base with dropout, TF-IDF and other fine-tunings."""
    adapted = f"adapted:{tiny_base(tmp_path / 'existing', tokenizer)}"
    arms = ("tfidf", "scratch", "pretrained", "linear", adapted)
    given = sections_of(tmp_path, arms=arms, budgets=("40",), seeds=1)
    given["model"], given["adapt"] = given["model"] | {"dropout": 0.1}, {"max_steps": 2}
    given["machine"] = machine
    _, prepared, plan = planned(tmp_path / "out", given)
    seen = Pids()
    outcome = run_here(tmp_path / "out", prepared, list(plan.jobs.values()), seen)
    assert not outcome.failed
    assert len(outcome.done) == len(plan.jobs)
    assert len({pid for pids in seen.pids.values() for pid in pids}) == 1, "one worker"
    checked = [job for job in outcome.done[1:] if job.kind in ("adapt", "linear") or job.name.startswith("pretrained")]
    assert sorted(job.kind for job in checked) == ["adapt", "finetune", "linear"]
    for job in checked:
        check_alone(job, tmp_path)


COMPARED = ("bundle/model.safetensors", "bundle/tokenizer.json", "data.json", "ledger.json")


def check_alone(job: Job, tmp_path: Path) -> None:
    """Run a job again in a process of its own; its weights, predictions and messages are the same."""
    file = tmp_path / "out" / "logs" / f"{Path(job.folder).name}.json"
    alone = json.loads(file.read_text()) | {"folder": str(tmp_path / f"alone-{job.kind}")}
    (tmp_path / "alone.json").write_text(json.dumps(alone), encoding="utf-8")
    env = os.environ | thread_limits(1) | {"HEADSWAP_CACHE": str(tmp_path / f"cache-{job.kind}")}  # empty, as it was
    with subprocess.Popen(
        new_python("-m", "headswap.study.jobs.job", str(tmp_path / "alone.json")),
        stdin=subprocess.PIPE, stderr=subprocess.PIPE, env=env,
    ) as process:  # fmt: skip
        assert process.stderr
        messages = process.stderr.read().decode()
        assert process.wait() == 0, messages
    ours, theirs = (Path(folder) for folder in (job.folder, alone["folder"]))
    names = [name for name in COMPARED if (ours / name).exists()]
    assert names or job.kind == "linear"
    for name in names:
        assert (ours / name).read_bytes() == (theirs / name).read_bytes(), (job.name, name)
    scored = [np.load(folder / "predictions.npz") for folder in (ours, theirs) if (ours / "predictions.npz").exists()]
    assert scored or job.kind == "adapt"
    for name in scored[0].files if scored else ():
        assert np.array_equal(scored[0][name], scored[1][name]), (job.name, name)
    written = file.with_suffix(".log").read_text().replace(job.folder, alone["folder"])
    assert written == messages, "the log has all messages of a job run alone, and no others"


@pytest.mark.slow
def test_a_killed_worker_costs_its_own_job_only(tmp_path: Path) -> None:
    given = sections_of(tmp_path, arms=("majority", "scratch"), budgets=("40",), seeds=2)
    given["finetune"] = {"num_train_epochs": 100_000}
    _, prepared, plan = planned(tmp_path / "out", given)
    by_name = {job.name: job for job in plan.jobs.values()}
    names = ["majority-40-seed1", "tokenizer", "scratch-40-seed1", "majority-40-seed2"]
    seen = Pids(victim="scratch-40-seed1")
    outcome = run_here(tmp_path / "out", prepared, [by_name[name] for name in names], seen)
    assert list(outcome.failed) == [by_name["scratch-40-seed1"].id]
    assert "killed by SIGKILL" in str(seen.ended["scratch-40-seed1"])
    assert {job.name for job in outcome.done} == set(names) - {"scratch-40-seed1"}
    used, new = seen.pids["scratch-40-seed1"]
    assert seen.pids["majority-40-seed1"] == seen.pids["tokenizer"] == [used], "it ran once more in a new worker"
    assert seen.pids["majority-40-seed2"] not in ([used], [new])


class IdleKill(Pids):
    """Kills the idle worker after the first job."""

    killed: int | None = None

    def on_end(self, job: Job, *, seconds: float, problem: str | None) -> None:
        super().on_end(job, seconds=seconds, problem=problem)
        if self.killed is None:
            assert self.executor is not None
            assert isinstance(self.executor.backend, LocalWorkers)
            (worker,) = self.executor.backend.workers
            assert worker.is_usable
            self.killed = worker.process.pid
            worker.process.kill()


@pytest.mark.slow
def test_an_idle_worker_that_is_killed_costs_no_job(tmp_path: Path) -> None:
    given = sections_of(tmp_path, arms=("majority",), budgets=("40",), seeds=3)
    _, prepared, plan = planned(tmp_path / "out", given)
    seen = IdleKill()
    outcome = run_here(tmp_path / "out", prepared, list(plan.jobs.values()), seen)
    assert not outcome.failed
    assert len(outcome.done) == 3
    assert seen.ended == dict.fromkeys((job.name for job in plan.jobs.values()), None)
    first, *others = (seen.pids[job.name] for job in outcome.done)
    assert first == [seen.killed]
    assert all(pids[-1] != seen.killed for pids in others)


@pytest.mark.slow
@pytest.mark.parametrize(("limit", "num_processes"), [(None, 1), (-1, 3)])
def test_a_worker_that_keeps_too_much_memory_is_replaced_after_its_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int | None, num_processes: int
) -> None:
    """Every process keeps at least as much as after its first job, so it is too large if the limit is -1 byte."""
    given = sections_of(tmp_path, arms=("majority",), budgets=("40",), seeds=3)
    _, prepared, plan = planned(tmp_path / "out", given)
    if limit is not None:
        program = f"from headswap.study.executors import worker; worker.MOST_GROWTH = {limit}; worker.main()"
        monkeypatch.setattr(local, "new_python", lambda *_: new_python("-c", program))
    seen = Pids()
    outcome = run_here(tmp_path / "out", prepared, list(plan.jobs.values()), seen)
    assert not outcome.failed
    assert len(outcome.done) == 3
    assert len({pid for pids in seen.pids.values() for pid in pids}) == num_processes


class FakeWorker(local.Worker):
    """A worker without a process: its jobs end when the test says so."""

    def __init__(self, first: Request, gpu: str | None, on_change: threading.Event) -> None:
        self.threads, self.machine, self.gpu, self.num_jobs = first.threads, first.machine, gpu, 0
        self._codes: dict[int, int] = {}
        self._is_leaving = self._has_ended = False

    def give(self, request: Request) -> int:
        self.machine = self.machine or request.machine
        self.num_jobs += 1
        return self.num_jobs

    def end(self, code: int = 0) -> None:
        self._codes[self.num_jobs] = code
        self._is_leaving = self._has_ended = code != 0

    def ask_to_stop(self) -> None:
        self.end(130)

    def close(self) -> None:
        self._is_leaving = self._has_ended = True


def test_jobs_are_divided_among_the_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "Worker", FakeWorker)
    pool = LocalWorkers(4, gpus=["0", "GPU-b"])
    request = Request(tmp_path / "job.json", tmp_path / "job.log", 1, "{}")
    workers: list[Any] = [pool.start(request)._worker for _ in range(4)]
    assert [worker.gpu for worker in workers] == ["0", "GPU-b", "0", "GPU-b"]
    workers[1].close()  # as if it was killed
    assert pool.start(request)._worker.gpu == "GPU-b"
    assert LocalWorkers(2, gpus=["0"])._next_gpu() is None, "one GPU: the environment is left as it is"


def test_a_hundred_baselines_run_in_as_many_processes_as_there_are_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Baselines have no machine settings, so a worker that trained a model runs them too."""
    made: list[FakeWorker] = []

    class Counted(FakeWorker):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            made.append(self)

    monkeypatch.setattr(local, "Worker", Counted)
    pool = LocalWorkers(2)
    baseline = Request(tmp_path / "job.json", tmp_path / "job.log", 1, None)
    training = Request(tmp_path / "job.json", tmp_path / "job.log", 1, '{"device": "cpu"}')
    for number in range(50):
        running: list[Any] = [pool.start(baseline)._worker, pool.start(baseline if number % 2 else training)._worker]
        for worker in running:
            worker.end()
    assert len(made) == 2


def test_a_job_with_other_threads_or_machine_settings_gets_another_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "Worker", FakeWorker)
    pool = LocalWorkers(2)

    def run(threads: int, machine: str | None) -> Any:
        worker: Any = pool.start(Request(tmp_path / "job.json", tmp_path / "job.log", threads, machine))._worker
        worker.end()
        return worker

    first = run(1, None)
    assert run(1, "{}") is first
    assert run(1, None) is first
    deterministic = run(1, '{"deterministic": true}')
    assert deterministic is not first
    assert run(1, "{}") is first
    assert run(2, "{}") not in (first, deterministic)
    assert len(pool.workers) == 2, "no more processes than parallel jobs"


def test_a_job_that_fails_in_a_used_worker_is_run_again_in_a_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "Worker", FakeWorker)
    pool = LocalWorkers(1)
    request = Request(tmp_path / "job.json", tmp_path / "job.log", 1, "{}")
    first = pool.start(request)
    used: Any = first._worker
    used.end()
    assert first.exit_code() == 0
    second = pool.start(request)
    assert second._worker is used
    used.end(-9)
    assert second.exit_code() is None
    new: Any = second._worker
    assert new is not used
    new.end(1)
    assert second.exit_code() == 1, "a new worker fails too: the reason is the job"


def test_a_job_that_was_asked_to_stop_is_not_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "Worker", FakeWorker)
    pool = LocalWorkers(1)
    request = Request(tmp_path / "job.json", tmp_path / "job.log", 1, "{}")
    first: Any = pool.start(request)
    first._worker.end()
    second = pool.start(request)
    second.ask_to_stop()
    assert second.exit_code() == 130
    assert len(pool.workers) == 1


@pytest.mark.parametrize(
    ("device", "given", "expected"),
    [("cpu", "0,1", []), ("auto", "0, GPU-b", ["0", "GPU-b"]), ("cuda", "", []), ("auto", "1", ["1"])],
)
def test_the_gpus_are_those_that_are_visible(
    monkeypatch: pytest.MonkeyPatch, device: str, given: str, expected: list[str]
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", given)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(expected))
    assert visible_gpus(device) == expected
    assert default_jobs("local", device) == max(1, len(expected)), "every GPU is used"
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    assert default_jobs("local", device) == 1, "the variable names GPUs that this machine does not have"
    assert default_jobs("slurm", device) == 1


def test_workers_are_given_only_gpus_that_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1,2")
    for count, expected in ((0, []), (1, ["0"]), (2, ["0", "1"])):
        monkeypatch.setattr(torch.cuda, "device_count", lambda count=count: count)
        backend = make_backend("local", parallel=2, cores=2)
        assert isinstance(backend, LocalWorkers)
        assert backend.gpus == expected


@pytest.mark.slow
def test_a_worker_that_was_given_a_gpu_and_finds_none_fails_with_a_sentence(tmp_path: Path) -> None:
    pool = LocalWorkers(2, gpus=["98", "99"])
    job = pool.start(Request(tmp_path / "job.json", tmp_path / "job.log", 1, "{}"))
    while (code := job.exit_code()) is None:
        pool.wait(60)
    pool.close()
    assert code == 1
    assert (tmp_path / "job.log").read_text().splitlines()[-1] == (
        "The job was given the GPU 98 (CUDA_VISIBLE_DEVICES), but its process finds no GPU, so it was not started. "
        "Check the GPU with nvidia-smi, or pass --device cpu."
    )


def test_only_a_job_that_trains_needs_the_gpu_of_its_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert missing_gpu(None) is None
    assert "given the GPU 1" in str(missing_gpu("1"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert missing_gpu("1") is None


def test_the_state_of_the_process_is_restored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.argv", ["worker"])
    monkeypatch.setenv("KEPT", "before")
    monkeypatch.chdir(Path.cwd())
    before = torch.get_num_threads()
    state = CleanState()
    drawn = (torch.rand(3), np.random.rand(3), random.random())
    os.environ["KEPT"], os.environ["CUBLAS_WORKSPACE_CONFIG"] = "changed", ":4096:8"
    os.chdir(tmp_path)
    torch.set_num_threads(before + 1)
    torch.manual_seed(5)
    torch.set_default_dtype(torch.float64)
    torch.use_deterministic_algorithms(True)
    torch.set_grad_enabled(False)
    torch.set_float32_matmul_precision("medium")
    policy.allow_fast_kernels(False)
    warnings.simplefilter("ignore")
    state.restore("job.json")
    assert torch.get_num_threads() == before
    again = (torch.rand(3), np.random.rand(3), random.random())
    assert all(np.array_equal(one, other) for one, other in zip(drawn, again, strict=True))
    assert os.environ["KEPT"] == "before"
    assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ
    assert Path.cwd() != tmp_path
    assert torch.get_default_dtype() == torch.float32
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.is_grad_enabled()
    assert torch.get_float32_matmul_precision() == "highest"
    assert policy._allowed
    assert list(warnings.filters) == state.filters


def test_a_warning_is_shown_again_in_the_next_job() -> None:
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("default")
        state = CleanState()
        for _ in range(2):
            state.restore("job.json")
            for _ in range(2):
                warnings.warn("the solver did not converge", stacklevel=1)
    assert len(shown) == 2
