"""Run jobs on a Ray cluster: a running one, or one that is started on this machine.

Every place for a job is a Ray actor (node.py) that reserves the threads of the job and, if the cluster has GPUs, one
GPU. Actors are reused for later jobs. Only paths are sent: results are written to the folder of the study, which all
machines share. If an actor or its machine is lost, its job is started again elsewhere and resumes from its last
checkpoint. When the study ends, for whatever reason, Ray ends its actors, and their jobs save and stop.
"""

import logging
import signal
from contextlib import suppress
from typing import Any

from headswap.core.errors import SettingError
from headswap.core.ray_cluster import connect
from headswap.core.surroundings import Surroundings
from headswap.study.executors.backend import Request
from headswap.study.executors.node import STOPPED, WRONG_SETTING, Node

log = logging.getLogger("headswap")
MOST_LOSSES = 20
"""So many times a job is started again because its machine was lost."""
SECONDS_TO_CLOSE = 10


class RayWorkers:
    """Jobs in the actors of a Ray cluster."""

    def __init__(self, address: str | None, *, parallel: int, cores: int, device: str = "auto") -> None:
        self.ray, self._disconnect = connect(address, num_cpus=max(parallel, cores))
        self.num_gpus = 1 if device != "cpu" and self.ray.cluster_resources().get("GPU", 0) >= 1 else 0
        self.surroundings = Surroundings()
        self.actor_class = self.ray.remote(Node)
        """Made once: for Ray each class is another type of task, and it warns of hundreds of them."""
        self.idle: list[tuple[int, Any]] = []
        """Actors without a job, with the threads that they reserve."""
        self.jobs: list[RayJob] = []
        self.num_actors = 0

    def start(self, request: Request) -> "RayJob":
        """Give the job to an idle actor, or to a new one."""
        request.log.write_bytes(b"")
        job = RayJob(request, self)
        self.jobs.append(job)
        return job

    def take(self, threads: int) -> Any:
        """An actor with so many threads; idle ones with other numbers are ended, since they reserve cores."""
        fitting = [actor for given, actor in self.idle if given == threads]
        for given, actor in self.idle:
            if given != threads:
                self.kill(actor)
        self.idle = [(threads, actor) for actor in fitting[1:]]
        return fitting[0] if fitting else self._new_actor(threads)

    def _new_actor(self, threads: int) -> Any:
        most = max((node["Resources"].get("CPU", 0) for node in self.ray.nodes() if node["Alive"]), default=0)
        if threads > most:
            raise SettingError(
                f"A job needs {threads} threads, but no machine of the Ray cluster has more than {most:.0f} CPUs. Set "
                "--threads."
            )
        self.num_actors += 1
        options = {"num_cpus": threads, "num_gpus": self.num_gpus, "max_restarts": 0, "max_concurrency": 2}
        return self.actor_class.options(**options).remote(self.surroundings)

    def release(self, threads: int, actor: Any) -> None:
        """An actor has ended its job: a job that waits for a free machine gets it, otherwise it becomes idle.

        An idle actor keeps its reservation, so a job that waits for resources would never start beside it.
        """
        waiting = [job for job in self.jobs if job.is_waiting]
        if fitting := [job for job in waiting if job.threads == threads]:
            fitting[0].move_to(actor)
        elif waiting:
            self.kill(actor)
        else:
            self.idle.append((threads, actor))

    def kill(self, actor: Any) -> None:
        """End an actor at once; its job, if any, saves and stops."""
        with suppress(Exception):  # it may be lost already
            self.ray.kill(actor)

    def wait(self, seconds: float) -> None:
        """Wait until a job ends."""
        self.jobs = [job for job in self.jobs if not job.has_ended]
        if references := [job.reference for job in self.jobs]:
            self.ray.wait(references, num_returns=1, timeout=seconds)

    def close(self) -> None:
        """End all actors; their worker programs end first."""
        actors = [actor for _, actor in self.idle]
        closing = [actor.close.remote() for actor in actors]
        for job in self.jobs:
            if not job.has_ended:
                job.ask_to_stop()
        with suppress(self.ray.exceptions.RayError):
            self.ray.wait(closing, num_returns=len(closing), timeout=SECONDS_TO_CLOSE) if closing else None
        for actor in actors:
            self.kill(actor)
        self.idle, self.jobs = [], []
        self._disconnect()


class RayJob:
    """A job in an actor; it moves to another actor if its own is lost."""

    def __init__(self, request: Request, pool: RayWorkers) -> None:
        self._request, self._pool = request, pool
        self._code: int | None = None
        self._is_stopping = False
        self._num_losses = 0
        self._give(pool.take(request.threads))

    @property
    def threads(self) -> int:
        """The threads that it needs."""
        return self._request.threads

    @property
    def is_waiting(self) -> bool:
        """Whether its actor waits for a free machine."""
        return not self.has_ended and not self._pool.ray.wait([self._is_ready], timeout=0)[0]

    def move_to(self, actor: Any) -> None:
        """Run in another actor than the one that waits for a free machine."""
        waiting = self._actor
        self._give(actor)
        self._pool.kill(waiting)

    def _give(self, actor: Any) -> None:
        request, self._actor = self._request, actor
        self._is_ready = self._actor.__ray_ready__.remote()
        self.reference = self._actor.run.remote(
            str(request.file), str(request.log), request.threads, request.machine
        )  # fmt: skip

    @property
    def has_ended(self) -> bool:
        """Whether its exit code is known."""
        return self._code is not None

    def exit_code(self) -> int | None:
        """None while the job runs or waits for a free machine."""
        if self._code is None and self._pool.ray.wait([self.reference], timeout=0)[0]:
            self._code = self._end()
        return self._code

    def _end(self) -> int | None:
        errors = self._pool.ray.exceptions
        try:
            code, problem = self._pool.ray.get(self.reference)
        except errors.RayActorError:
            return self._after_loss()
        except errors.RayError as failure:
            code, problem = WRONG_SETTING, f"Ray could not run the job: {str(failure).strip().splitlines()[-1]}"
        if problem:
            with self._request.log.open("a", encoding="utf-8") as messages:
                messages.write(f"{problem}\n")
        if self._is_stopping:
            self._pool.kill(self._actor)
        else:
            self._pool.release(self.threads, self._actor)
        return code

    def _after_loss(self) -> int | None:
        self._pool.kill(self._actor)  # if only the connection was lost
        if self._is_stopping:
            return STOPPED
        self._num_losses += 1
        if self._num_losses > MOST_LOSSES:
            return -signal.SIGKILL
        log.warning("A machine of the cluster was lost; its job is started again elsewhere (%s).", self._request.log)
        self._give(self._pool.take(self.threads))
        return None

    def ask_to_stop(self) -> None:
        """Ask the job to save and stop; one that waits for a free machine is not started."""
        if self.has_ended:
            return
        self._is_stopping = True
        if self.is_waiting:
            self._pool.kill(self._actor)
        else:
            self._actor.stop.remote()
