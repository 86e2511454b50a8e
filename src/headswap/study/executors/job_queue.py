"""Run the jobs of a study in parallel: their order, deadlines and failures. A back end runs each job (backend.py).

A failed job is reported and the others continue; jobs that need it are skipped. On a stop request the running jobs save
and stop. With a deadline, a job is started only if its estimated end is before the deadline, and a job that still runs
at the deadline is saved and stopped.
"""

import json
import logging
import os
import signal
import threading
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from headswap.core.stop_requests import stop_requests
from headswap.study.executors.backend import Backend, Handle, Request
from headswap.study.executors.choose import LOCAL, make_backend
from headswap.study.jobs.estimate import Estimator
from headswap.study.jobs.planned_jobs import BASE_KINDS, Job

log = logging.getLogger("headswap")
POLL_SECONDS = 0.1
NEED_FAILED = "a job that it needs failed"


@dataclass
class Outcome:
    """The outcome of the jobs."""

    done: list[Job] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """Reasons per job id."""
    left_out: list[Job] = field(default_factory=list)
    """Jobs that were not started, or were saved and stopped, because of the deadline or a stop request."""
    was_stopped: bool = False


class Watcher:
    """Callbacks of a study; the default ones do nothing."""

    def on_start(self, job: Job) -> None:
        """A job starts."""

    def on_end(self, job: Job, *, seconds: float, problem: str | None) -> None:
        """A job has ended; `problem` states why it failed."""

    def on_wait(self, running: list[Job]) -> None:
        """Called repeatedly while jobs run."""


@dataclass
class _Running:
    job: Job
    handle: Handle
    started: float
    log: Path


class Executor:
    """Runs the jobs of one study. Within a `with` block, calls of `run` share the workers."""

    def __init__(
        self,
        out: Path,
        estimator: Estimator,
        *,
        parallel: int,
        threads: int | None,
        keep: str,
        watcher: Watcher,
        backend: Backend | None = None,
        device: str = "auto",
    ) -> None:
        self.out, self.estimator, self.parallel, self.threads = out.resolve(), estimator, parallel, threads
        self.keep, self.watcher = keep, watcher
        self.deadline: float | None = None
        self.was_stopped = False
        self.backend = backend or make_backend(LOCAL, parallel=parallel, cores=cores(), device=device)
        self._num_open = 0
        self.checked_freshly: set[str] = set()
        """Jobs whose bundle is read back in a fresh process: the first fine-tuning of each arm."""

    def __enter__(self) -> Self:
        self._num_open += 1
        return self

    def __exit__(self, *_: object) -> None:
        self._num_open -= 1
        if not self._num_open:
            self.backend.close()

    def run(
        self, jobs: Iterable[Job], *, deadline: float | None = None, num_sharing_cores: int | None = None
    ) -> Outcome:
        """Run the jobs that are not done, including damaged ones; `deadline` is in time.monotonic().

        A finished job that needs a damaged job is checked again after that job was run again. After a stop request no
        further job is started, in later calls neither. The cores are divided among the jobs that run in parallel, or
        among `num_sharing_cores` jobs if given.
        """
        outcome = Outcome(was_stopped=self.was_stopped)
        self.deadline = deadline
        every = list(jobs)
        self.checked_freshly |= _first_of_each_arm(every)
        damaged = {job.id for job in every if job.damage}
        waiting = [job for job in every if not job.is_done or not damaged.isdisjoint(job.needs)]
        stages = sorted({job.stage for job in waiting})
        parts = [[job for job in waiting if job.stage == stage] for stage in stages]
        if not self.runs_by_stages(waiting, deadline=deadline):
            parts = [waiting]
        with self, stop_requests() as request:
            for part in parts:
                self._run_part(part, outcome, request, num_sharing_cores)
        return outcome

    def runs_by_stages(self, jobs: Iterable[Job], *, deadline: float | None) -> bool:
        """Whether all pre-training jobs end before the first fine-tuning job starts.

        Then pre-training has all cores, and the jobs left out at a deadline are those of whole seeds. With a fixed
        number of threads and no time limit, a job starts as soon as the jobs that it needs are done.
        """
        trainings = [job.sections["training"] for job in jobs if job.kind in BASE_KINDS]
        is_timed = deadline is not None or any(training.get("max_minutes") for training in trainings)
        return is_timed or not self.threads

    def _run_part(
        self, waiting: list[Job], outcome: Outcome, request: threading.Event, num_sharing_cores: int | None
    ) -> None:
        width = min(self.parallel, len(waiting))
        threads = self.threads_per_job(num_sharing_cores or width)
        running: list[_Running] = []
        is_past_deadline = False
        while waiting or running:
            if request.is_set() and not self.was_stopped:
                self.was_stopped = outcome.was_stopped = True
                self._ask_to_stop(running)
            if self.was_stopped:
                outcome.left_out += [job for job in waiting if not job.is_done]
                waiting = []
            while len(running) < width and (job := _first_ready(waiting, running)):
                waiting.remove(job)
                if job.is_done:
                    continue
                if any(need in outcome.failed for need in job.needs):
                    self._skip(job, outcome)
                elif self._needs_left_out(job, outcome) or not self._fits_deadline(job):
                    outcome.left_out.append(job)
                else:
                    running.append(self._start(job, threads))
            if self.deadline is not None and time.monotonic() > self.deadline and not is_past_deadline:
                is_past_deadline = True
                self._ask_to_stop(running)
            running = [item for item in running if not self._has_ended(item, outcome, is_past_deadline)]
            self.watcher.on_wait([item.job for item in running])
            if running:
                self.backend.wait(POLL_SECONDS)

    def threads_per_job(self, num_jobs: int) -> int:
        """Threads of each of `num_jobs` jobs: the setting, else an equal share of the cores up to OMP_NUM_THREADS."""
        if self.threads:
            return self.threads
        allowed = os.environ.get("OMP_NUM_THREADS", "")
        share = max(1, cores() // num_jobs)
        return min(share, int(allowed)) if allowed.isdecimal() and int(allowed) else share

    def _skip(self, job: Job, outcome: Outcome) -> None:
        """Count a job as failed because a job that it needs failed."""
        outcome.failed[job.id] = NEED_FAILED
        self.watcher.on_end(job, seconds=0.0, problem=NEED_FAILED)

    def _needs_left_out(self, job: Job, outcome: Outcome) -> bool:
        return any(left.id in job.needs for left in outcome.left_out)

    def _fits_deadline(self, job: Job) -> bool:
        return self.deadline is None or time.monotonic() + self.estimator.seconds(job) <= self.deadline

    def _start(self, job: Job, threads: int) -> _Running:
        if why := job.damage:
            log.warning("The job %s was found damaged (%s) and is run again.", job.name, why)
        self.watcher.on_start(job)
        (self.out / "logs").mkdir(parents=True, exist_ok=True)
        description = self.out / "logs" / f"{Path(job.folder).name}.json"
        is_fresh = job.id in self.checked_freshly
        content = asdict(job) | {"keep": self.keep, "reloads_in_fresh_process": is_fresh}
        description.write_text(json.dumps(content, default=list), encoding="utf-8")
        messages = description.with_suffix(".log")
        machine = json.dumps(job.sections["machine"], sort_keys=True) if "machine" in job.sections else None
        handle = self.backend.start(Request(description, messages, threads, machine))
        return _Running(job, handle, time.monotonic(), messages)

    def _ask_to_stop(self, running: list[_Running]) -> None:
        for item in running:
            item.handle.ask_to_stop()

    def _has_ended(self, item: _Running, outcome: Outcome, is_past_deadline: bool) -> bool:
        code = item.handle.exit_code()
        if code is None:
            return False
        seconds = time.monotonic() - item.started
        if code == 0 and item.job.is_done:
            outcome.done.append(item.job)
            self.estimator.record(item.job, seconds)
            self.watcher.on_end(item.job, seconds=seconds, problem=None)
        elif (outcome.was_stopped or is_past_deadline) and code in (130, -signal.SIGTERM):
            outcome.left_out.append(item.job)
        else:
            problem = item.job.damage if code == 0 else _last_line(item.log) if code > 0 else _killed_by(-code)
            problem = problem or f"exit code {code}"
            outcome.failed[item.job.id] = problem
            self.watcher.on_end(item.job, seconds=seconds, problem=f"{problem} (see {item.log})")
        return True


def _first_ready(waiting: list[Job], running: list[_Running]) -> Job | None:
    """The first job that needs no waiting or running job."""
    unfinished = {job.id for job in waiting} | {item.job.id for item in running}
    return next((job for job in waiting if unfinished.isdisjoint(job.needs)), None)


def _first_of_each_arm(jobs: Iterable[Job]) -> set[str]:
    first: dict[str | None, str] = {}
    for job in jobs:
        if job.kind == "finetune":
            first.setdefault(job.arm, job.id)
    return set(first.values())


def cores() -> int:
    """The number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _killed_by(number: int) -> str:
    """Why a job ended that could not write a last line."""
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    hint = ", perhaps because memory ran out" if name == "SIGKILL" else ""
    return f"its process was killed by {name}{hint}"


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else ""
