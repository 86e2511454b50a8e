"""What a back end must do: start a job that a file describes, report its exit code, ask it to stop.

Only paths and a few numbers are passed to a back end, so a job may run in a process of this machine or on another
machine with the same folder. A job reads its description and writes its run folder and its log. The order of jobs,
deadlines, damaged outputs and failures belong to the executor (job_queue.py), not to a back end.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Request:
    """One job to run."""

    file: Path
    """The JSON file that describes the job; `python -m headswap.study.jobs.job FILE` runs the same job alone."""
    log: Path
    """Everything that the job prints is written here; the last line states why a job failed."""
    threads: int
    machine: str | None = None
    """Settings of the machine (threads, deterministic kernels, ...) hold for a whole process, so jobs with other ones
    share no process. None: the job depends on none of them."""


class Handle(Protocol):
    """A job that was started."""

    def exit_code(self) -> int | None:
        """None while the job runs; afterwards the exit code of the job, or minus the signal that killed it."""

    def ask_to_stop(self) -> None:
        """Ask the job to save and stop; its exit code is then 130 or minus SIGTERM."""


class Backend(Protocol):
    """Runs jobs. Jobs end when the process that called `start` ends, for whatever reason, except those of Slurm."""

    def start(self, request: Request) -> Handle:
        """Start a job and return at once; its log is emptied first."""

    def wait(self, seconds: float) -> None:
        """Return when a job ends, at the latest after so many seconds."""

    def close(self) -> None:
        """Release everything that waits for further jobs; jobs that still run are asked to stop."""
