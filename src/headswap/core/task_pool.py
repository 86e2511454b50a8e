"""Run many independent tasks, one after the other in this process, or on the machines of a Ray cluster.

A task is a function of a module with paths and numbers as arguments. It writes its result to a file whose name it knows
and returns nothing, so tasks that are done already need not be started again. A task whose machine is lost is started
again elsewhere.
"""

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from headswap.core.errors import HeadswapError, RunError, SettingError
from headswap.core.ray_cluster import connect
from headswap.core.surroundings import Surroundings

log = logging.getLogger("headswap")

NAMES = ("local", "ray", "ray:ADDRESS")
MOST_RETRIES = 20
AHEAD = 2
"""Tasks per CPU that are given to Ray at a time."""
Task = tuple[Any, ...]


class TaskPool:
    """Where tasks run: `local`, `ray` or `ray:ADDRESS`. The connection is made when tasks are run first."""

    def __init__(self, name: str) -> None:
        self.kind, _, self.address = name.partition(":")
        if self.kind not in ("local", "ray") or (self.kind == "local" and self.address):
            raise SettingError(f"executor = '{name}' is not allowed. Give one of: {', '.join(NAMES)}.")
        self._ray: Any = None
        self._disconnect: Callable[[], None] = lambda: None

    def __enter__(self) -> "TaskPool":
        if self.kind == "ray":
            self._ray, self._disconnect = connect(self.address or None, num_cpus=os.cpu_count() or 1)
        return self

    def __exit__(self, *_: object) -> None:
        self._disconnect()
        self._ray = None

    def run(self, function: Callable[..., None], tasks: Sequence[Task], on_done: Callable[[], None]) -> None:
        """Call the function with the arguments of each task; the first failure ends all."""
        if self.kind == "local":
            for arguments in tasks:
                function(*arguments)
                on_done()
        else:
            self._run_on_ray(function, tasks, on_done)

    def run_numbered(
        self, function: Callable[[str, int], None], folder: str, numbers: Sequence[int], what: str
    ) -> None:
        """Run a task per number, with a folder that all machines share; `what` was done is logged after each."""
        num_done = 0

        def on_done() -> None:
            nonlocal num_done
            num_done += 1
            log.info("%s of %s: %s.", f"{num_done:,}", f"{len(numbers):,}", what)

        self.run(function, [(folder, number) for number in numbers], on_done)

    def _run_on_ray(self, function: Callable[..., None], tasks: Iterable[Task], on_done: Callable[[], None]) -> None:
        ray, left = self._ray, list(tasks)[::-1]
        running: list[Any] = []
        most = AHEAD * max(1, int(ray.cluster_resources().get("CPU", 1)))
        place = Surroundings()
        start = ray.remote(run_on_node).options(num_cpus=1, max_retries=MOST_RETRIES)
        try:
            while left or running:
                while left and len(running) < most:
                    running.append(start.remote(function, left.pop(), place))
                ended, running = ray.wait(running, num_returns=1)
                for reference in ended:
                    _raise_problem(ray, reference)
                    on_done()
        finally:
            for reference in running:
                ray.cancel(reference)


def run_on_node(function: Callable[..., None], arguments: Task, place: Surroundings) -> str | None:
    """Run a task on a machine of a cluster with one thread; return why it cannot be run there."""
    if problem := place.problem_here(*(Path(value) for value in arguments if isinstance(value, str))):
        return problem
    place.enter()
    os.environ["RAYON_NUM_THREADS"] = "1"  # the threads of the package tokenizers; a task reserves one CPU
    function(*arguments)
    return None


def _raise_problem(ray: Any, reference: Any) -> None:
    try:
        problem = ray.get(reference)
    except ray.exceptions.RayTaskError as failure:
        if isinstance(failure.cause, HeadswapError):
            raise failure.cause from None
        raise RunError(f"A task on the Ray cluster failed: {str(failure).strip().splitlines()[-1]}") from None
    except ray.exceptions.RayError as failure:
        raise RunError(f"A task was lost by the Ray cluster: {str(failure).strip().splitlines()[0]}") from None
    if problem:
        raise SettingError(problem)
