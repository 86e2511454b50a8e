"""One place of a cluster that runs jobs, one at a time, with the worker program of this machine (local.py).

Every job of a cluster is run by the same program as a job of one machine, so it has the same bits on the same kind of
machine. The worker program is a child process: when this process is killed, its pipe is closed, and the job saves and
stops.
"""

import threading
from pathlib import Path

from headswap.core.surroundings import Surroundings
from headswap.study.executors.backend import Request
from headswap.study.executors.local import LocalWorkers, WorkerJob

POLL_SECONDS = 0.1
STOPPED = 130
WRONG_SETTING = 2


class Node:
    """Runs jobs on a machine of a cluster; `stop` is called from another thread."""

    def __init__(self, surroundings: Surroundings) -> None:
        self.surroundings = surroundings
        self.pool = LocalWorkers(1)
        self._lock = threading.Lock()
        self._is_stopping = False
        self._job: WorkerJob | None = None

    def run(self, file: str, log: str, threads: int, machine: str | None) -> tuple[int, str | None]:
        """Run the job of a file; return its exit code and why it could not be started."""
        if problem := self.surroundings.problem_here(Path(file)):
            return WRONG_SETTING, problem
        self.surroundings.enter()
        with self._lock:
            if self._is_stopping:
                return STOPPED, None
            job = self._job = self.pool.start(Request(Path(file), Path(log), threads, machine))
        while (code := job.exit_code()) is None:
            self.pool.wait(POLL_SECONDS)
        self._job = None
        return code, None

    def stop(self) -> None:
        """Ask the job to save and stop; no other job is started."""
        with self._lock:
            self._is_stopping = True
            if job := self._job:
                job.ask_to_stop()

    def close(self) -> None:
        """End the worker program; a job that still runs is asked to stop."""
        self.pool.close()
