"""Rows 11 and 12: jobs of a study in warm workers, and with a new process for every job, as studies ran before.

Row 11 has many small fine-tunings and baselines on generated texts. Row 12 is a whole study, frozen in `old-demo.toml`.
Both sides run the same jobs; on a CPU they must have the same predictions.
"""

import json
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from headswap.core.current_folder import new_python
from headswap.core.errors import counted
from headswap.core.settings import read_toml
from headswap.study.executors.backend import Backend, Request
from headswap.study.executors.job_queue import cores
from headswap.study.executors.local import LocalWorkers, thread_limits
from headswap.study.run import Study, run_study

from .contest import Side, Work
from .row import Measured, Setting, Target, contest
from .texts import words

OLD_DEMO = Path(__file__).parents[1] / "old-demo.toml"
NUM_TEXTS = {"train": 600, "test": 2_000, "corpus": 500}
SHAPE = {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 512}
PER_HOUR = 3600


@dataclass(frozen=True)
class ProcessJob:
    """A job that has its own process."""

    process: subprocess.Popen[bytes]

    def exit_code(self) -> int | None:
        """None while it runs."""
        return self.process.poll()

    def ask_to_stop(self) -> None:
        """Send SIGTERM."""
        self.process.terminate()


class ProcessPerJob:
    """A back end with a new process for every job; every bundle is read back in another new process."""

    def __init__(self) -> None:
        self.started: list[ProcessJob] = []

    def start(self, request: Request) -> ProcessJob:
        """Start the job alone."""
        job = json.loads(request.file.read_text(encoding="utf-8")) | {"reloads_in_fresh_process": True}
        request.file.write_text(json.dumps(job), encoding="utf-8")
        with request.log.open("wb") as log:
            command = new_python("-m", "headswap.study.jobs.job", str(request.file))
            environment = os.environ | thread_limits(request.threads)
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment)
        self.started.append(ProcessJob(process))
        return self.started[-1]

    def wait(self, seconds: float) -> None:
        """Wait; the executor polls."""
        time.sleep(seconds)

    def close(self) -> None:
        """Close the pipes, which stops jobs that still run."""
        for job in self.started:
            with suppress(OSError):
                assert job.process.stdin
                job.process.stdin.close()


def small_jobs(setting: Setting) -> list[Measured]:
    """Jobs per hour of a study of small jobs."""
    parallel = 1 if setting.is_tiny else cores() if setting.device == "cpu" else max(1, cores() // 2)
    seeds = 1 if setting.is_tiny else 6 if setting.device == "cpu" else 60
    few = min(seeds, 8)  # a process per job has the same rate with few seeds and with many
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sections = _generated_study(folder, seeds=seeds, device=setting.device, is_tiny=setting.is_tiny)
        run = _Run(folder, sections, parallel, num_seeds_alone=few)
        title = f"majority, TF-IDF and scratch, {counted(seeds, 'seed')}, {counted(parallel, 'job')} in parallel"
        title += "" if few == seeds else f" ({counted(few, 'seed')} with a process per job)"
        wanted = [Target("a process per job", 4.0)] if setting.device == "cuda" else []
        return [_compared(title, run, setting, wanted, rounds=1 if setting.is_tiny else 2)]


def old_demo(setting: Setting) -> list[Measured]:
    """The study of `old-demo.toml` on the cores of this machine."""
    if setting.device == "cuda":
        return []
    frozen = {name: part for name, part in read_toml(OLD_DEMO).items() if isinstance(part, dict)}
    sections: dict[str, Any] = {"machine": {"device": "cpu"}} | frozen
    if setting.is_tiny:
        sections["study"] |= {"seeds": 1, "budgets": ["100"], "arms": ["majority", "scratch"], "primary_arm": None}
        sections["finetune"] = {"max_steps": 2}
    with tempfile.TemporaryDirectory() as name:
        run = _Run(Path(name), sections, parallel=1 if setting.is_tiny else 2)
        # 60 % of the time is 1 / 0.6 of the speed
        return [_compared("old-demo.toml, 2 jobs in parallel", run, setting, [Target("a process per job", 1 / 0.6)], 1)]


@dataclass
class _Run:
    """Studies in new folders; on a CPU all must have the same predictions."""

    folder: Path
    sections: dict[str, Any]
    parallel: int
    num_seeds_alone: int | None = None
    """Seeds of the side with a process per job; None if it has those of the other side."""
    count: int = 0
    predictions: dict[str, np.ndarray] | None = None

    def work(self, backend: Callable[[], Backend], num_seeds: int | None = None) -> Work:
        """One whole study per call; its amount is 3,600 per job, so that a rate is in jobs per hour."""
        changed = {"seeds": num_seeds} if num_seeds else {}
        sections = self.sections | {"study": self.sections["study"] | changed}

        def once() -> float:
            self.count += 1
            out = self.folder / f"study-{self.count}"
            study = run_study(out=out, sections=sections, jobs=self.parallel, backend=backend())
            if study.outcome.failed:
                raise RuntimeError(f"jobs failed: {study.outcome.failed}")
            if study.outcome.left_out:
                raise SystemExit("The bench was stopped while a study ran: there is no figure.")
            if self.sections["machine"]["device"] == "cpu":  # on a GPU sums of floats have no fixed order
                self._compare(study)
            return len(study.outcome.done) * PER_HOUR

        return once

    def _compare(self, study: Study) -> None:
        found = {
            id: np.load(file)["probabilities"]
            for id, job in study.plan.jobs.items()
            if (file := Path(job.folder) / "predictions.npz").exists() and not _is_timed(self.sections, job.arm)
        }
        self.predictions = self.predictions or found
        for id, values in found.items():
            if id in self.predictions and not np.array_equal(values, self.predictions[id]):
                raise RuntimeError(f"the predictions of {study.plan.jobs[id].name} are not the same on both sides")


def _is_timed(sections: dict[str, Any], arm: str | None) -> bool:
    """Whether an arm's base is pre-trained for some minutes: its weights then depend on the speed."""
    return arm == "pretrained" and "max_minutes" in sections.get("pretrain", {})


def _compared(title: str, run: _Run, setting: Setting, targets: list[Target], rounds: int) -> Measured:
    sides = [
        Side("warm workers", lambda: run.work(lambda: LocalWorkers(run.parallel)), warm_up=0),
        Side("a process per job", lambda: run.work(ProcessPerJob, run.num_seeds_alone), warm_up=0),
    ]
    return contest(title, sides, Setting("cpu", rounds, setting.is_tiny), unit="jobs/h", targets=targets, rounds=rounds)


def _generated_study(folder: Path, *, seeds: int, device: str, is_tiny: bool) -> dict[str, Any]:
    """Rows of invented words; a label is the parity of a text's first word."""
    rng, vocabulary = np.random.default_rng(0), sorted(set(words(20_000, seed=0)))
    for role, count in NUM_TEXTS.items():
        numbers = rng.integers(0, len(vocabulary), size=(count // 10 if is_tiny else count, 30))
        rows = [
            json.dumps({"text": " ".join(vocabulary[one] for one in row), "label": str(row[0] % 2)}) for row in numbers
        ]
        (folder / f"{role}.jsonl").write_text("\n".join(rows) + "\n", encoding="utf-8")
    shape = {**SHAPE, "hidden_size": 32, "intermediate_size": 32} if is_tiny else SHAPE
    return {
        "study": {
            "corpus": (str(folder / "corpus.jsonl"),), "arms": ("majority", "tfidf", "scratch"), "seeds": seeds,
            "budgets": ("20",) if is_tiny else ("100",), "max_length": 64,
        },
        "data": {"train": str(folder / "train.jsonl"), "test": str(folder / "test.jsonl")},
        "tokenizer": {"vocab_size": 400 if is_tiny else 2_000},
        "model": shape,
        "finetune": {"num_train_epochs": 1 if is_tiny else 10},
        "machine": {"device": device},
    }  # fmt: skip
