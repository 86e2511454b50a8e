"""Run jobs in processes of this machine that are reused: warm workers.

Importing, the CUDA context and tokenising take longer than a small job, so a worker runs many jobs, one at a time
(worker.py). Every worker is a process with its own pipes: a worker that is killed costs only the job that it runs, and
the next job gets a new one. A worker whose job failed is replaced too, and so is one that has grown too large. When the
study ends, for whatever reason, the pipes are closed, and the jobs save and stop.
"""

import json
import logging
import os
import signal
import subprocess
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress

from headswap.core.current_folder import new_python
from headswap.study.executors.backend import Request

log = logging.getLogger("headswap")
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "RAYON_NUM_THREADS")
GPUS = "CUDA_VISIBLE_DEVICES"


def thread_limits(threads: int) -> dict[str, str]:
    """Environment variables that limit the threads of a job, so that parallel jobs do not compete for cores."""
    return dict.fromkeys(THREAD_VARIABLES, str(threads))


class Worker:
    """A process that runs one job after the other."""

    def __init__(self, first: Request, gpu: str | None, on_change: threading.Event) -> None:
        self.threads, self.machine = first.threads, first.machine
        self.gpu, self._on_change = gpu, on_change
        self._codes: dict[int, int] = {}
        """Exit codes of ended jobs, per number of the job in this worker."""
        self.num_jobs = 0
        self._is_leaving = False
        """Whether it gets no other job: it ends after the job that it runs, if any."""
        self._has_ended = False
        with first.log.open("ab") as messages:  # of the imports; a job opens its own log
            self.process = subprocess.Popen(
                new_python("-m", "headswap.study.executors.worker"),
                stdin=subprocess.PIPE,  # closed when the study ends, which stops the job
                stdout=subprocess.PIPE,  # exit codes of jobs
                stderr=messages,
                env=os.environ | thread_limits(first.threads) | ({GPUS: gpu} if gpu is not None else {}),
                start_new_session=True,  # Ctrl-C reaches only the study, which asks its jobs to stop
            )
        threading.Thread(target=self._read_codes, daemon=True).start()

    def _read_codes(self) -> None:
        """Keep the exit code of every job, until the worker ends."""
        assert self.process.stdout
        with self.process.stdout as lines:
            for line in lines:
                answer = json.loads(line)
                self._is_leaving |= answer["is_last"]
                self._codes[answer["number"]] = answer["code"]
                self._on_change.set()
        self.process.wait()
        self._is_leaving = self._has_ended = True
        self._on_change.set()

    @property
    def is_usable(self) -> bool:
        """Whether it can be given another job."""
        return not self._is_leaving and self.num_jobs == len(self._codes)

    @property
    def is_running(self) -> bool:
        """Whether it runs a job."""
        return not self._has_ended and self.num_jobs > len(self._codes)

    def fits(self, request: Request) -> bool:
        """Whether it can run this job now, with the result of a new process."""
        is_same = request.machine == self.machine or None in (request.machine, self.machine)
        return self.is_usable and is_same and request.threads == self.threads

    def give(self, request: Request) -> int:
        """Start a job in this worker; return its number."""
        self.machine = self.machine or request.machine
        self.num_jobs += 1
        gpu = self.gpu if request.machine is not None else None  # other jobs need none
        line = {"number": self.num_jobs, "file": str(request.file), "log": str(request.log), "gpu": gpu}
        assert self.process.stdin
        with suppress(OSError):  # it was killed between two jobs: `exit_code` reports it
            self.process.stdin.write(json.dumps(line).encode() + b"\n")
            self.process.stdin.flush()
        return self.num_jobs

    def exit_code(self, number: int) -> int | None:
        """The exit code of a job, or that of the worker if it ended before the job did."""
        if number in self._codes:
            return self._codes[number]
        return self.process.returncode if self._has_ended else None

    def ask_to_stop(self) -> None:
        """Ask its job to save and stop; the worker gets no other job."""
        self._is_leaving = True
        self.process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """Close its standard input: an idle worker ends, a running job saves and stops."""
        self._is_leaving = True
        assert self.process.stdin
        with suppress(OSError):
            self.process.stdin.close()


class WorkerJob:
    """A job in a worker.

    If it fails in a worker that has run other jobs, it is run once more in a new worker before it counts as failed:
    what the others left behind may be the reason, such as a lack of memory.
    """

    def __init__(self, request: Request, worker: Worker, new_worker: Callable[[Request], Worker]) -> None:
        self._request, self._worker, self._new_worker = request, worker, new_worker
        self._number = worker.give(request)
        self._is_stopping = False

    def exit_code(self) -> int | None:
        """None while the job runs."""
        code = self._worker.exit_code(self._number)
        if not code or self._number == 1 or self._is_stopping:
            return code
        log.warning(
            "A job failed in a worker that had run others; it is run again in a new one (%s).", self._request.log
        )
        self._request.log.write_bytes(b"")
        self._worker = self._new_worker(self._request)
        self._number = self._worker.give(self._request)
        return None

    def ask_to_stop(self) -> None:
        """Send SIGTERM to the worker unless the job has ended."""
        if self._worker.exit_code(self._number) is None:
            self._is_stopping = True
            self._worker.ask_to_stop()


class LocalWorkers:
    """Warm workers: at most `parallel` processes, divided among the GPUs if there are several."""

    def __init__(self, parallel: int, *, gpus: list[str] | None = None) -> None:
        self.parallel, self.gpus = parallel, gpus or []
        self.workers: list[Worker] = []
        self._on_change = threading.Event()

    def start(self, request: Request) -> WorkerJob:
        """Give the job to an idle worker that fits, or to a new one."""
        request.log.write_bytes(b"")
        self.workers = [worker for worker in self.workers if worker.is_running or worker.is_usable]
        for worker in self.workers:
            if worker.fits(request):
                return WorkerJob(request, worker, self._new_worker)
        return WorkerJob(request, self._new_worker(request), self._new_worker)

    def _new_worker(self, request: Request) -> Worker:
        """A new worker for this job; idle ones are ended if there would be too many."""
        idle = [worker for worker in self.workers if worker.is_usable]
        for worker in idle[: max(0, len(self.workers) + 1 - self.parallel)]:
            worker.close()
            self.workers.remove(worker)
        worker = Worker(request, self._next_gpu(), self._on_change)
        self.workers.append(worker)
        return worker

    def _next_gpu(self) -> str | None:
        """The GPU with the fewest workers; None if there are not several."""
        if len(self.gpus) < 2:
            return None
        used = Counter(worker.gpu for worker in self.workers)
        return min(self.gpus, key=lambda gpu: used[gpu])

    def wait(self, seconds: float) -> None:
        """Wait until a job or a worker ends."""
        self._on_change.wait(seconds)
        self._on_change.clear()

    def close(self) -> None:
        """Let all workers end; wait for the idle ones."""
        for worker in self.workers:
            was_running = worker.is_running
            worker.close()
            if not was_running:
                worker.process.wait()
        self.workers.clear()


def visible_gpus(device: str) -> list[str]:
    """The GPUs that the jobs may use, as values of CUDA_VISIBLE_DEVICES; none for jobs on the CPU."""
    if device == "cpu":
        return []
    import torch

    count = torch.cuda.device_count()  # without a CUDA context; CUDA ends its list at the first name it does not find
    if (given := os.environ.get(GPUS)) is not None:
        return [name for part in given.split(",") if (name := part.strip())][:count]
    return [str(number) for number in range(count)]
