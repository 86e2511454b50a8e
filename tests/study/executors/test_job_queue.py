"""Jobs in processes: failures, deadlines, stop requests, order and threads."""

import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headswap.study.executors.job_queue import Executor, Outcome, Watcher, cores
from headswap.study.executors.local import thread_limits
from headswap.study.jobs.estimate import Estimator
from headswap.study.jobs.planned_jobs import Job
from headswap.study.jobs.preflight import estimate_study
from study_fixture import (
    RecordingWatcher,
    planned,
    sections_of,
)

BASELINES = {"arms": ("majority", "tfidf"), "budgets": ("40",), "seeds": 1}


def executor_of(out: Path, watcher: Watcher, prepared: Any, *, parallel: int = 1) -> Executor:
    out.mkdir(exist_ok=True)
    estimator = Estimator(None, prepared)
    return Executor(out, estimator, parallel=parallel, threads=1, keep="bundles", watcher=watcher)


def test_a_failed_job_is_reported_and_the_others_continue(tmp_path: Path) -> None:
    given = sections_of(tmp_path, **BASELINES | {"arms": ("majority", "tfidf", "pretrained")})
    _, prepared, plan = planned(tmp_path / "out", given)
    base = next(job for job in plan.jobs.values() if job.kind == "pretrain")
    base.sections["training"]["max_length"] = 1  # a setting that is refused when the job starts
    jobs = [job for job in plan.jobs.values() if job.kind != "tokenizer"]
    seen = RecordingWatcher()
    outcome = executor_of(tmp_path / "out", seen, prepared).run(jobs)
    assert "training.max_length = 1 is not allowed" in str(seen.ended[base.name])
    assert seen.ended["pretrained-40-seed1"] == "a job that it needs failed"
    assert (seen.ended["majority-40-seed1"], seen.ended["tfidf-40-seed1"]) == (None, None)
    assert len(outcome.failed) == 2
    assert len(outcome.done) == 2


def test_a_crashed_job_is_reported_with_its_last_line(tmp_path: Path) -> None:
    _, prepared, plan = planned(tmp_path / "out", sections_of(tmp_path, **BASELINES))
    job = next(job for job in plan.jobs.values() if job.arm == "majority")
    job.sections["data"]["train"] = str(tmp_path / "gone.jsonl")
    seen = RecordingWatcher()
    executor_of(tmp_path / "out", seen, prepared).run([job])
    assert "gone.jsonl does not exist" in str(seen.ended[job.name])
    assert "majority-40-seed1" in str(seen.ended[job.name]), "and the path of its log"


def test_after_the_deadline_no_job_is_started(tmp_path: Path) -> None:
    _, prepared, plan = planned(tmp_path / "out", sections_of(tmp_path, **BASELINES))
    seen = RecordingWatcher()
    outcome = executor_of(tmp_path / "out", seen, prepared).run(plan.jobs.values(), deadline=time.monotonic())
    assert seen.started == []
    assert [job.name for job in outcome.left_out] == ["majority-40-seed1", "tfidf-40-seed1"]


def test_jobs_that_need_a_left_out_job_are_left_out(tmp_path: Path) -> None:
    given = sections_of(tmp_path, arms=("pretrained",), budgets=("40",), seeds=1)
    _, prepared, plan = planned(tmp_path / "out", given)
    outcome = executor_of(tmp_path / "out", RecordingWatcher(), prepared).run(
        plan.jobs.values(), deadline=time.monotonic()
    )
    assert len(outcome.left_out) == 3
    assert not outcome.failed


class Stopping(RecordingWatcher):
    """Asks this process to stop when the first job starts."""

    def on_start(self, job: Job) -> None:
        super().on_start(job)
        if len(self.started) == 1:
            os.kill(os.getpid(), signal.SIGTERM)


def test_after_a_stop_request_no_job_is_started(tmp_path: Path) -> None:
    _, prepared, plan = planned(tmp_path / "out", sections_of(tmp_path))
    jobs = list(plan.jobs.values())
    assert len({job.stage for job in jobs}) > 2
    seen = Stopping()
    working = executor_of(tmp_path / "out", seen, prepared)
    outcome = working.run(jobs)
    assert outcome.was_stopped
    assert len(seen.started) == 1
    assert {job.id for job in outcome.left_out} == {job.id for job in jobs}
    again = working.run(jobs)  # the study runs its jobs after a stopped probe
    assert again.was_stopped
    assert len(seen.started) == 1
    assert len(again.left_out) == len(jobs)


class Slow(Executor):
    """Its pre-training job takes a hundred polls, every other job one."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.has_base = False
        self.before_a_base: list[str] = []

    def _start(self, job: Job, threads: int) -> Any:
        if job.stage == 2 and not self.has_base:
            self.before_a_base.append(job.name)
        return SimpleNamespace(job=job, polls=100 if job.kind == "pretrain" else 1)

    def _has_ended(self, item: Any, outcome: Outcome, is_past_deadline: bool) -> bool:
        item.polls -= 1
        if not item.polls:
            self.has_base |= item.job.kind == "pretrain"
            outcome.done.append(item.job)
        return not item.polls


@pytest.mark.parametrize(("threads", "minutes", "waits"), [(1, None, False), (None, None, True), (1, 5.0, True)])
def test_jobs_without_a_base_do_not_wait_for_it_with_fixed_threads_and_no_time_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int | None, minutes: float | None, waits: bool
) -> None:
    monkeypatch.setattr("headswap.study.executors.job_queue.POLL_SECONDS", 0)
    _, prepared, plan = planned(tmp_path / "out", sections_of(tmp_path))
    jobs = list(plan.jobs.values())
    (base,) = [job for job in jobs if job.kind == "pretrain"]
    base.sections["training"] |= {"max_minutes": minutes}
    free = [job.name for job in jobs if job.stage == 2 and base.id not in job.needs]
    assert 0 < len(free) < len([job for job in jobs if job.stage == 2])
    working = Slow(
        tmp_path / "out", Estimator(None, prepared), parallel=3, threads=threads, keep="bundles", watcher=Watcher()
    )
    done = [job.id for job in working.run(jobs).done]
    assert sorted(done) == sorted(plan.jobs)
    for job in jobs:
        assert all(done.index(need) < done.index(job.id) for need in job.needs), "needed jobs come first"
    assert working.before_a_base == ([] if waits else free)
    assert working.runs_by_stages(jobs, deadline=None) == waits
    assert working.runs_by_stages(jobs, deadline=1.0)
    seconds = [
        estimate_study(jobs, working.estimator, parallel=3, keep="bundles", by_stages=by_stages).seconds
        for by_stages in (True, False)
    ]
    assert 0 < seconds[1] < seconds[0]


@pytest.mark.parametrize(
    ("threads", "environment", "expected"), [(None, "", 4), (None, "1", 1), (None, "64", 4), (3, "1", 3)]
)
def test_threads_are_the_setting_or_a_share_of_the_cores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int | None, environment: str, expected: int
) -> None:
    monkeypatch.setattr("headswap.study.executors.job_queue.cores", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", environment)
    estimator: Any = None
    one = Executor(tmp_path, estimator, parallel=2, threads=threads, keep="bundles", watcher=Watcher())
    assert one.threads_per_job(2) == expected


def test_thread_limits_are_set_for_every_library() -> None:
    assert set(thread_limits(3).values()) == {"3"}
    assert cores() >= 1
