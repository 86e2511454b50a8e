"""Running jobs: some side by side, each in a process of its own, until all are done, failed, or out of time.

A failed job is told and the rest goes on; what stands on it is passed over. Asked to stop, the jobs save and stop too.
With a limit of time no job is started that would not end in it, and one that still runs then is saved and stopped.
"""

import json
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from headswap.core.current_folder import new_python
from headswap.core.stop_requests import stop_requests
from headswap.study.estimate import Estimator
from headswap.study.plan import Job

log = logging.getLogger("headswap")
POLL_SECONDS = 0.1


@dataclass
class Outcome:
    """What became of the jobs."""

    done: list[Job] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    """Why, by id."""
    left_out: list[Job] = field(default_factory=list)
    """Not begun, or begun and saved, for want of time."""
    was_stopped: bool = False


class Watcher:
    """Told of what happens; does nothing by itself."""

    def on_start(self, job: Job) -> None:
        """A job begins."""

    def on_end(self, job: Job, *, seconds: float, problem: str | None) -> None:
        """A job has ended, well or not."""

    def on_wait(self, running: list[Job]) -> None:
        """Time passes."""


@dataclass
class _Running:
    job: Job
    process: subprocess.Popen
    started: float
    log: Path


class Scheduler:
    """Runs jobs of one study."""

    def __init__(
        self, out: Path, estimator: Estimator, *, parallel: int, threads: int | None, keep: str, watcher: Watcher
    ) -> None:
        self.out, self.estimator, self.parallel, self.threads = out.resolve(), estimator, parallel, threads
        self.keep, self.watcher = keep, watcher
        self.deadline: float | None = None
        self.was_stopped = False

    def run(self, jobs: Iterable[Job], *, deadline: float | None = None, sharing: int | None = None) -> Outcome:
        """Run the jobs that are not done yet, damaged ones among them; `deadline` is in time.monotonic().

        A job that is done and was made from a damaged one is checked again once that one has been run again.

        Once it was asked to stop it begins nothing more, in no later call either.

        The cores are shared among as many jobs as run side by side, or as if there were `sharing` of them.
        """
        outcome = Outcome(was_stopped=self.was_stopped)
        self.deadline = deadline
        every = list(jobs)
        damaged = {job.id for job in every if job.damage}
        waiting = [job for job in every if not job.is_done or not damaged.isdisjoint(job.needs)]
        stages = sorted({job.stage for job in waiting})
        parts = [[job for job in waiting if job.stage == stage] for stage in stages]
        if not self.goes_by_stages(waiting, deadline=deadline):
            parts = [waiting]
        with stop_requests() as request:
            for part in parts:
                self._run_part(part, outcome, request, sharing)
        return outcome

    def goes_by_stages(self, jobs: Iterable[Job], *, deadline: float | None) -> bool:
        """Whether bases come first, alone, and all that is fine-tuned after them.

        So they have all cores, and what is left out for want of time is whole seeds. Where the threads of a job are
        told and nobody counts minutes, a job begins as soon as what it stands on is there.
        """
        trainings = [job.sections["training"] for job in jobs if job.kind == "pretrain"]
        is_timed = deadline is not None or any(training.get("max_minutes") for training in trainings)
        return is_timed or not self.threads

    def _run_part(self, waiting: list[Job], outcome: Outcome, request: threading.Event, sharing: int | None) -> None:
        width = min(self.parallel, len(waiting))
        threads = self.threads_of(sharing or width)
        running: list[_Running] = []
        is_closing = False
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
                if missing := self._missing(job, outcome):
                    self._refuse(job, missing, outcome)
                elif not self._fits(job):
                    outcome.left_out.append(job)
                else:
                    running.append(self._start(job, threads))
            if self.deadline is not None and time.monotonic() > self.deadline and not is_closing:
                is_closing = True
                self._ask_to_stop(running)
            running = [item for item in running if not self._has_ended(item, outcome, is_closing)]
            self.watcher.on_wait([item.job for item in running])
            if running:
                time.sleep(POLL_SECONDS)

    def threads_of(self, num_jobs: int) -> int:
        """Threads of each of some jobs: as told, else a part of the cores, within what the environment allows."""
        if self.threads:
            return self.threads
        allowed = os.environ.get("OMP_NUM_THREADS", "")
        part = max(1, cores() // num_jobs)
        return min(part, int(allowed)) if allowed.isdecimal() and int(allowed) else part

    def _missing(self, job: Job, outcome: Outcome) -> str | None:
        left = {late.id for late in outcome.left_out}
        for id in job.needs:
            if id in outcome.failed:
                return "what it stands on failed"
            if id in left:
                return "left out"
        return None

    def _refuse(self, job: Job, why: str, outcome: Outcome) -> None:
        if why == "left out":
            outcome.left_out.append(job)
        else:
            outcome.failed[job.id] = why
            self.watcher.on_end(job, seconds=0.0, problem=why)

    def _fits(self, job: Job) -> bool:
        return self.deadline is None or time.monotonic() + self.estimator.seconds(job) <= self.deadline

    def _start(self, job: Job, threads: int) -> _Running:
        if why := job.damage:
            log.warning("The job %s was found damaged (%s) and is run again.", job.name, why)
        self.watcher.on_start(job)
        (self.out / "logs").mkdir(parents=True, exist_ok=True)
        description = self.out / "logs" / f"{Path(job.folder).name}.json"
        content = asdict(job) | {"keep": self.keep}
        description.write_text(json.dumps(content, default=list), encoding="utf-8")
        messages = description.with_suffix(".log")
        with messages.open("w", encoding="utf-8") as file:
            process = subprocess.Popen(
                new_python("-m", "headswap.study.job", str(description)),
                stdin=subprocess.PIPE,  # its end tells the job that the study is gone
                stdout=file,
                stderr=subprocess.STDOUT,
                env=os.environ | thread_limits(threads),
                start_new_session=True,  # Ctrl-C reaches the study, which asks its jobs to stop
            )
        return _Running(job, process, time.monotonic(), messages)

    def _ask_to_stop(self, running: list[_Running]) -> None:
        for item in running:
            item.process.send_signal(signal.SIGTERM)

    def _has_ended(self, item: _Running, outcome: Outcome, is_closing: bool) -> bool:
        code = item.process.poll()
        if code is None:
            return False
        if item.process.stdin:
            item.process.stdin.close()
        seconds = time.monotonic() - item.started
        if code == 0 and item.job.is_done:
            outcome.done.append(item.job)
            self.estimator.learn(item.job, seconds)
            self.watcher.on_end(item.job, seconds=seconds, problem=None)
        elif (outcome.was_stopped or is_closing) and code in (130, -signal.SIGTERM):
            outcome.left_out.append(item.job)
        else:
            problem = item.job.damage if code == 0 else _last_line(item.log)
            problem = problem or f"exit code {code}"
            outcome.failed[item.job.id] = problem
            self.watcher.on_end(item.job, seconds=seconds, problem=f"{problem} (see {item.log})")
        return True


def _first_ready(waiting: list[Job], running: list[_Running]) -> Job | None:
    """The next job that stands on nothing that is still to come."""
    to_come = {job.id for job in waiting} | {item.job.id for item in running}
    return next((job for job in waiting if to_come.isdisjoint(job.needs)), None)


def cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_limits(threads: int) -> dict[str, str]:
    """Environment of a job that shares the machine with others: two jobs with all cores each run at half speed."""
    names = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")
    return dict.fromkeys(names, str(threads))


def _last_line(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1] if lines else ""
