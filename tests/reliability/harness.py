"""Kill a command, resume it, and compare its results with those of an uninterrupted run.

The processes are real; each is forked from a server that has imported torch. The watcher waits for an event that the
process reports (see victim.py), asserts that the process is alive, and sends SIGKILL. There are no sleeps. To test
another command, add a `Job`.
"""

import multiprocessing
import shutil
import signal
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reliability import runs, victim
from reliability.victim import FINISHED, Trigger

DEADLINE = 120.0  # seconds to wait for an event; only reached if a process hangs
PRELOADED = [
    "reliability.victim", "headswap.api.functions", "headswap.cli.app", "headswap.cli.training_command",
    "headswap.baselines.classify",
    "torch._dynamo", "sklearn.linear_model", "sklearn.feature_extraction.text", "sklearn.metrics", "scipy.stats",
]  # fmt: skip


@dataclass(frozen=True)
class Job:
    """A command to kill: its arguments, how it is resumed, and how two results are compared."""

    name: str
    argv: Callable[[Path, Path], list[str]]
    """Returns the command for a folder of input files and an output folder."""
    differences: Callable[[Path, Path], list[str]] = runs.differences
    resume: tuple[str, ...] = ("--resume",)


@dataclass
class Tally:
    """Counts of kills, resumes and mismatches."""

    kills: Counter[str] = field(default_factory=Counter)
    resumes: int = 0
    mismatches: list[str] = field(default_factory=list)

    @property
    def num_kills(self) -> int:
        """Number of processes that were alive and were ended by SIGKILL."""
        return self.kills.total()


class Harness:
    """Runs jobs on the same input files; each job has its own folder and cache."""

    def __init__(self, folder: Path, tally: Tally | None = None) -> None:
        self.folder, self.tally = folder, tally or Tally()
        self.files = runs.write_files(folder / "files")
        self.context: Any = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(PRELOADED)
        self.whole: dict[str, tuple[Path, dict[str, int]]] = {}

    def uninterrupted(self, job: Job) -> tuple[Path, dict[str, int]]:
        """The result of an uninterrupted job, and its number of events of each kind."""
        if job.name not in self.whole:
            out = self.folder / f"{job.name}-whole" / "out"
            counts = self.finish(job, out, resume=False)
            self.whole[job.name] = out, counts
        return self.whole[job.name]

    def chain(self, job: Job, name: str, triggers: list[Trigger]) -> int:
        """Kill a job at each trigger in turn, finish it, and compare; returns the number of kills.

        If a trigger is not reached because the job ends before it, nothing is killed.
        """
        whole, _ = self.uninterrupted(job)
        out = self.folder / name / "out"
        kills = 0
        for trigger in triggers:
            if not self.kill(job, out, trigger, resume=bool(kills)):
                break
            kills += 1
        else:
            self.finish(job, out, resume=bool(kills))
        if kills:
            self.tally.resumes += kills
        leftovers = [str(path) for path in out.rglob(".tmp-*")] + [str(path) for path in out.glob(".lock")]
        found = job.differences(whole, out) + leftovers
        if found:
            self.tally.mismatches.append(f"{name}: {', '.join(found)}; see {out}")
        else:
            shutil.rmtree(out.parent)
        return kills

    def kill(self, job: Job, out: Path, trigger: Trigger, *, resume: bool) -> bool:
        """Start or resume a job and kill it at the trigger; False if the job ended before it."""
        process, pipe = self._start(job, out, trigger, resume=resume)
        kind, detail = self._event(process, pipe, out)
        if kind == FINISHED:
            process.join()
            assert process.exitcode == 0, self._log(out)
            return False
        assert process.is_alive(), f"{job.name} was dead before it was killed at {kind} {detail}\n{self._log(out)}"
        if not trigger.is_held:
            pipe.send("continue")
        process.kill()
        process.join()
        if process.exitcode == 0 and not trigger.is_held:
            return False  # it ended before the kill
        assert process.exitcode == -signal.SIGKILL, f"exit code {process.exitcode}\n{self._log(out)}"
        self.tally.kills[kind if trigger.is_held else "running"] += 1
        return True

    def finish(self, job: Job, out: Path, *, resume: bool) -> dict[str, int]:
        """Run a job to its end; returns the number of events by kind."""
        process, pipe = self._start(job, out, None, resume=resume)
        kind, counts = self._event(process, pipe, out)
        process.join()
        assert kind == FINISHED, kind
        assert process.exitcode == 0, f"exit code {process.exitcode}\n{self._log(out)}"
        return counts

    def _start(self, job: Job, out: Path, trigger: Trigger | None, *, resume: bool) -> Any:
        out.parent.mkdir(parents=True, exist_ok=True)
        ours, theirs = self.context.Pipe()
        environment = {"HEADSWAP_CACHE": str(out.parent / "cache"), "OMP_NUM_THREADS": "1"}
        argv = [*job.argv(self.files, out), *(job.resume if resume else ())]
        arguments = (argv, environment, theirs, trigger, str(out.parent / "log.txt"))
        process = self.context.Process(target=victim.main, args=arguments)
        process.start()
        theirs.close()
        return process, ours

    def _event(self, process: Any, pipe: Any, out: Path) -> tuple[str, Any]:
        try:
            if pipe.poll(DEADLINE):
                return pipe.recv()
        except EOFError:
            process.join()
        process.kill()
        raise AssertionError(f"no event came; exit code {process.exitcode}\n{self._log(out)}")

    def _log(self, out: Path) -> str:
        file = out.parent / "log.txt"
        return file.read_text(errors="replace")[-3000:] if file.exists() else "no log"


TRAINING = [*runs.as_flags(runs.SHAPE), "--logging-steps=1", "--quiet", "--json"]


def _pretrain(files: Path, out: Path) -> list[str]:
    own = ["--max-steps=24", "--eval-steps=8", "--batch-size=8", "--save-steps=4", "--held-out-fraction=0.05"]
    return ["pretrain", str(files / "corpus.txt"), f"--out={out}", *own, *TRAINING]


def _finetune(files: Path, out: Path) -> list[str]:
    own = [f"--train={files / 'train.jsonl'}", f"--test={files / 'test.jsonl'}", "--base=scratch",
           "--num-train-epochs=3", "--batch-size=16", "--save-steps=4", "--learning-rate=0.003"]  # fmt: skip
    return ["finetune", f"--out={out}", *own, *TRAINING]


def _store(files: Path, out: Path) -> list[str]:
    return ["store", str(files / "corpus.txt"), f"--tokenizer={files / 'tokenizer.json'}", f"--out={out}", "--quiet"]


def _store_differences(one: Path, other: Path) -> list[str]:
    names = sorted(file.name for file in one.iterdir())
    if names != sorted(file.name for file in other.iterdir()):
        return ["files"]
    return [name for name in names if (one / name).read_bytes() != (other / name).read_bytes()]


PRETRAIN = Job("pretrain", _pretrain)
FINETUNE = Job("finetune", _finetune)
STORE = Job("store", _store, differences=_store_differences, resume=())
JOBS = (PRETRAIN, FINETUNE, STORE)
