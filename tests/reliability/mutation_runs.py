"""Run mutation cases in worker processes with a memory limit, and count the verdicts.

Case N of a seed is always the same damage to the same file. A worker has its own copy of the fixtures, sets a limit on
its memory, and reports each case before and after it; if it dies, the case that killed it is a failure and a new worker
runs the rest.
"""

import multiprocessing
import os
import resource
import shutil
import signal
from collections import Counter, deque
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from headswap.core.random_streams import numpy_stream
from reliability.mutation_cases import (
    DETECTED,
    HARMLESS,
    INPUTS,
    PROTECTED,
    RESUMED,
    Subject,
    make_fixtures,
    remember,
    restore_run,
)
from reliability.mutations import mutated

MEMORY = 2 << 30  # bytes that a worker may allocate beyond what it has at its start
SECONDS = 60  # for one case; a case takes a fraction of a second
CHUNK = 50
ORDER: tuple[Subject, ...] = (*PROTECTED, *INPUTS, *PROTECTED)
EVERY_RESUMED = 40
PRELOADED = ["reliability.mutation_cases", "torch._dynamo", "sklearn.metrics", "headswap.cli.verbs.evaluate"]


@dataclass
class MutationCounts:
    """Cases and verdicts, of protected files and of inputs."""

    protected: Counter[str] = field(default_factory=Counter)
    inputs: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    def add(self, subject: Subject, case: str, verdict: str) -> None:
        """Count one case."""
        counts = self.protected if subject.is_protected else self.inputs
        counts["cases"] += 1
        if verdict in (DETECTED, HARMLESS):
            counts[verdict] += 1
        else:
            counts["failures"] += 1
            self.failures.append(f"{case}: {verdict}")


def subject_of(number: int) -> Subject:
    """The subject of a case."""
    return RESUMED if number % EVERY_RESUMED == EVERY_RESUMED - 1 else ORDER[number % len(ORDER)]


def try_case(folder: Path, number: int, seed: int) -> tuple[str, str]:
    """Mutate one file, judge the answer, and restore the file; returns (case, verdict)."""
    subject, draws = subject_of(number), numpy_stream(seed, "mutation", number)
    files = subject.files(folder)
    file = files[int(draws.integers(len(files)))]
    content = file.read_bytes()
    kind, changed = mutated(content, file.name, draws)
    case = f"case {number} (seed {seed}), {subject.name}, {file.relative_to(folder)}, {kind}"
    if changed == content:
        return case, HARMLESS
    file.write_bytes(changed)
    try:
        return case, subject.judge(folder, file)
    except BaseException as problem:  # any exception is a bug
        return case, f"{type(problem).__name__}: {str(problem)[:300]}"
    finally:
        if subject is RESUMED:
            restore_run(folder)
        else:
            file.write_bytes(content)


def _work(fixtures: Path, own: Path, numbers: list[int], seed: int, pipe: Any) -> None:
    """The worker."""
    shutil.rmtree(own, ignore_errors=True)
    shutil.copytree(fixtures, own, symlinks=True)
    os.environ["HEADSWAP_CACHE"] = str(own / "cache")
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silence, stream)
    import torch

    torch.set_num_threads(1)
    pages = int(Path("/proc/self/statm").read_text().split()[0]) if Path("/proc/self/statm").exists() else 1 << 24
    limit = pages * resource.getpagesize() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    signal.signal(signal.SIGALRM, _too_slow)
    for number in numbers:
        pipe.send((number, None, None))
        signal.alarm(SECONDS)
        case, verdict = try_case(own, number, seed)
        signal.alarm(0)
        pipe.send((number, case, verdict))
    pipe.close()


def _too_slow(_number: int, _frame: object) -> None:
    raise TimeoutError(f"it took more than {SECONDS} seconds")


def run_mutations(folder: Path, number: int, seed: int, *, workers: int = 2) -> MutationCounts:
    """Run the first `number` cases of a seed."""
    context: Any = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    fixtures = folder / "fixtures"
    making = context.Process(target=_make, args=(fixtures,))
    making.start()
    making.join()
    assert making.exitcode == 0, "the fixtures could not be made"
    waiting = deque(list(range(begin, min(begin + CHUNK, number))) for begin in range(0, number, CHUNK))
    running: dict[Any, tuple[Any, int, list[int]]] = {}
    counts = MutationCounts()
    free = list(range(workers))
    while waiting or running:
        while waiting and free:
            place, numbers = free.pop(), waiting.popleft()
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_work, args=(fixtures, folder / f"worker-{place}", numbers, seed, theirs))
            process.start()
            theirs.close()
            running[ours] = process, place, numbers
        for pipe in wait(list(running)):
            process, place, numbers = running[pipe]
            try:
                case_number, case, verdict = pipe.recv()
            except EOFError:
                process.join()
                del running[pipe]
                free.append(place)
                if numbers:  # it died in the first of these cases
                    counts.add(subject_of(numbers[0]), f"case {numbers[0]} (seed {seed})", f"died ({process.exitcode})")
                    if numbers[1:]:
                        waiting.append(numbers[1:])
                continue
            if verdict is not None:
                numbers.remove(case_number)
                counts.add(subject_of(case_number), case, verdict)
    return counts


def _make(fixtures: Path) -> None:
    os.environ["HEADSWAP_CACHE"] = str(fixtures.parent / "cache")
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(silence, stream)
    import torch

    torch.set_num_threads(1)
    make_fixtures(fixtures)
    remember(fixtures)
