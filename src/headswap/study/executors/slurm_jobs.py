"""Run jobs on a Slurm cluster with submitit: one Slurm job per job of the study.

Only paths are submitted. The job reads its description from the folder of the study, which all machines share, and
runs in the worker program of one machine (node.py). Unlike those of the other back ends, jobs continue when the process
of the study ends: the number of the Slurm job is kept next to the log, and the next process of the study takes the job
over. A job whose machine was lost, or that was preempted, is submitted again. Options of sbatch are given as
environment variables, such as SBATCH_ACCOUNT and SBATCH_TIMELIMIT, which Slurm reads itself.
"""

import logging
import signal
import subprocess
import threading
import time
from typing import Any

from headswap.core.errors import MissingExtraError, RunError, SettingError
from headswap.core.surroundings import Surroundings
from headswap.study.executors.backend import Request
from headswap.study.executors.node import STOPPED, Node

log = logging.getLogger("headswap")
GONE = "GONE"
"""Slurm does not know the job any more."""
LOST = ("NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "REVOKED", GONE)
ENDED = (*LOST, "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT", "OUT_OF_MEMORY", "DEADLINE")
MOST_LOSSES = 20
POLL_SECONDS = 2.0
"""How often Slurm is asked for the states of all jobs."""
GRACE_SECONDS = 60.0
"""So long the result of a job that has ended may take to appear in the shared folder."""
WAITS_FOR_SQUEUE = (1.0, 2.0, 5.0, 10.0, 20.0)
"""Seconds between the attempts to call squeue before jobs of an earlier process are taken over."""


def run_on_node(surroundings: Surroundings, file: str, log: str, threads: int, machine: str | None) -> int:
    """What a Slurm job does: run one job of the study; SIGTERM (scancel) is passed on, and the job saves."""
    node = Node(surroundings)
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=node.stop, daemon=True).start())
    code, problem = node.run(file, log, threads, machine)
    node.close()
    if problem:
        with open(log, "a", encoding="utf-8") as messages:
            messages.write(f"{problem}\n")
    return code


class SlurmJobs:
    """Jobs of a study as Slurm jobs."""

    def __init__(self, partition: str | None, *, device: str = "auto") -> None:
        try:
            import submitit
        except ModuleNotFoundError:
            raise MissingExtraError("The executor slurm", extra="slurm", package="submitit") from None
        self.submitit, self.partition = submitit, partition
        self.num_gpus = 1 if device == "cuda" else 0
        self.surroundings = Surroundings()
        self._states: dict[str, str] = {}
        self._read_at = float("-inf")
        self._is_known = False
        """Whether squeue has answered once."""

    def start(self, request: Request) -> "SlurmJob":
        """Take over the Slurm job that an earlier process of the study submitted, or submit one."""
        return SlurmJob(request, self)

    def submit(self, request: Request) -> Any:
        """Submit the job of a request."""
        try:
            executor = self.submitit.SlurmExecutor(folder=request.file.parent)
        except RuntimeError as problem:
            raise SettingError(f"The executor slurm cannot be used: {problem}") from None
        options: dict[str, Any] = {"job_name": request.file.stem, "cpus_per_task": request.threads}
        options |= {"gres": f"gpu:{self.num_gpus}"} if self.num_gpus else {}
        options |= {"partition": self.partition} if self.partition else {}
        executor.update_parameters(**options)
        arguments = (str(request.file), str(request.log), request.threads, request.machine)
        job = executor.submit(run_on_node, self.surroundings, *arguments)
        self._states[str(job.job_id)] = "PENDING"
        return job

    def existing(self, request: Request, number: str) -> Any:
        """A Slurm job that an earlier process submitted; None if Slurm does not run it any more."""
        self._know_states()
        if self.state(number) in ENDED:
            return None
        return self.submitit.SlurmJob(folder=request.file.parent, job_id=number, tasks=[0])

    def _know_states(self) -> None:
        """Call squeue until it has answered once: what it did not list may run, and would be submitted twice."""
        problem = ""
        for seconds in (0.0, *WAITS_FOR_SQUEUE):
            if self._is_known:
                return
            if problem:
                log.warning("squeue failed (%s); it is called again after %g seconds.", problem, seconds)
            time.sleep(seconds)
            found, problem = _states_of_all()
            if found is not None:
                self._states, self._is_known = found | self._states, True
                self._read_at = time.monotonic()
                return
        raise RunError(
            f"The study has jobs in Slurm from an earlier process, but squeue failed {len(WAITS_FOR_SQUEUE) + 1} times "
            f"({problem}), so it is not known which of them still run. Nothing was submitted twice. Run the same "
            "command again when squeue works."
        )

    def state(self, number: str) -> str:
        """The state of a Slurm job, as Slurm told it at most a few seconds ago."""
        if time.monotonic() - self._read_at > POLL_SECONDS:
            found, problem = _states_of_all()
            if found is None:  # the controller may be busy or restarted: the jobs are not touched by that
                log.warning("squeue failed (%s); it is called again.", problem)
            else:
                self._states, self._is_known = found, True
            self._read_at = time.monotonic()
        return self._states.get(number, GONE)

    def wait(self, seconds: float) -> None:
        """Wait; Slurm does not report when a job ends."""
        time.sleep(seconds)

    def close(self) -> None:
        """Nothing is kept between jobs."""


def _states_of_all() -> tuple[dict[str, str] | None, str]:
    """The states of all jobs of this user, also of those that ended some minutes ago; or None and the reason."""
    command = ["squeue", "--me", "--noheader", "--states=all", "--format=%i %T"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as problem:
        return None, str(problem)
    if found.returncode != 0:
        return None, found.stderr.strip() or f"exit code {found.returncode}"
    return dict(line.split(maxsplit=1) for line in found.stdout.splitlines() if line.strip()), ""


class SlurmJob:
    """One job as a Slurm job."""

    def __init__(self, request: Request, pool: SlurmJobs) -> None:
        self._request, self._pool = request, pool
        self._number_file = request.file.with_suffix(".slurm")
        self._num_losses = 0
        self._is_stopping = False
        self._code: int | None = None
        self._ended_at: float | None = None
        self._job = self._taken_over() or self._submitted()

    def _taken_over(self) -> Any:
        if not self._number_file.is_file():
            return None
        number = self._number_file.read_text(encoding="utf-8").strip()
        job = self._pool.existing(self._request, number)
        if job is not None:
            log.info("Slurm still has the job %s of an earlier process; it is taken over.", number)
        return job

    def _submitted(self) -> Any:
        self._request.log.write_bytes(b"")
        job = self._pool.submit(self._request)
        self._number_file.write_text(str(job.job_id), encoding="utf-8")
        self._ended_at = None
        return job

    def exit_code(self) -> int | None:
        """None while the Slurm job waits or runs."""
        if self._code is None:
            self._code = self._end()
            if self._code is not None:
                self._number_file.unlink(missing_ok=True)
        return self._code

    def _end(self) -> int | None:
        """The exit code that the job wrote, or what follows from its state in Slurm."""
        if self._job.paths.result_pickle.exists():
            problem = self._job.exception()
            if problem is not None:
                return self._failed(_last_line(problem))
            code = int(self._job.result())
            is_lost = code == STOPPED and not self._is_stopping and self._num_losses < MOST_LOSSES
            if not is_lost or self._pool.state(str(self._job.job_id)) == "CANCELLED":
                return code
            self._num_losses += 1  # Slurm ended it, at a time limit or for another job, and it saved
            self._job = self._submitted()
            return None
        state = self._pool.state(str(self._job.job_id))
        if state not in ENDED:
            return None
        if self._is_stopping:
            return STOPPED
        self._ended_at = self._ended_at or time.monotonic()
        if state in ("COMPLETED", GONE) and time.monotonic() - self._ended_at < GRACE_SECONDS:
            return None
        if state in LOST and self._num_losses < MOST_LOSSES:
            self._num_losses += 1
            log.warning("Slurm lost a job (%s); it is submitted again (%s).", state, self._request.log)
            self._job = self._submitted()
            return None
        return self._failed(f"Slurm ended the job {self._job.job_id} with the state {state}.")

    def _failed(self, why: str) -> int:
        with self._request.log.open("a", encoding="utf-8") as messages:
            messages.write(f"{why}\n")
        return 1

    def ask_to_stop(self) -> None:
        """Let Slurm cancel the job: Slurm sends SIGTERM first, and the job saves."""
        if self._code is None:
            self._is_stopping = True
            self._job.cancel(check=False)


def _last_line(problem: BaseException) -> str:
    lines = str(problem).strip().splitlines()
    return lines[-1] if lines else type(problem).__name__
