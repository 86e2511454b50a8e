"""Estimate the time, memory and disk of a study before it starts, from a short probe.

The estimates are pure functions of the probe's measurements and of the config files of bases that the study does
not pre-train. They are corrected by the times of finished jobs.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headswap.core.errors import counted
from headswap.core.files import read_json
from headswap.core.installed_bases import base_folder, is_boxed
from headswap.core.settings import load_recipe
from headswap.defaults import finetuning_epochs
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.splits import num_for_choosing
from headswap.pretraining.config import PretrainRecipe
from headswap.registry import CLASSIFY_BASELINES
from headswap.study.plan import Job
from headswap.study.prepare import Prepared

START_SECONDS = {"cpu": 4.0, "cuda": 12.0}
OVERHEAD = {"cpu": 0.8e6, "cuda": 20e6}
"""Fixed cost of a step in parameters: the times of small models differ less than their sizes."""
BASELINE_SECONDS = 3.0
BYTES_PER_PARAMETER = 4
COPIES_WHILE_TRAINING = 5  # the bundle, a checkpoint with two moments, the best weights
COPIES_KEPT = {"bundles": 1, "results": 0}


@dataclass
class Estimator:
    """Seconds per job, corrected by the times of finished jobs."""

    probe: Mapping[str, Any] | None
    prepared: Prepared
    finished: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Estimated and actual seconds of finished jobs, per kind."""

    def seconds(self, job: Job) -> float:
        """Estimated seconds of a job."""
        estimated, actual = self.finished.get(job.kind, (0.0, 0.0))
        return self._uncorrected(job) * (actual / estimated if estimated else 1.0)

    def record(self, job: Job, seconds: float) -> None:
        """Correct later estimates by the time of a finished job."""
        estimated, actual = self.finished.get(job.kind, (0.0, 0.0))
        self.finished[job.kind] = estimated + self._uncorrected(job), actual + seconds

    def _uncorrected(self, job: Job) -> float:
        if job.kind == "tokenizer":
            return 5.0 + self.prepared.corpus_bytes / 20e6
        if job.kind == "baseline":
            texts = (job.labels or 0) * 6 + self.prepared.num_rows["test"]
            return BASELINE_SECONDS + texts * CLASSIFY_BASELINES.load(job.arm or "").seconds_per_text
        if self.probe is None:
            return 60.0
        work = self._pretraining(job) if job.kind == "pretrain" else self._finetuning(job)
        return START_SECONDS[self._device()] + work

    def _pretraining(self, job: Job) -> float:
        probe, training = self.probe, load_recipe(PretrainRecipe, None, job.sections).training
        assert probe is not None
        if training.max_minutes is not None:
            return training.max_minutes * 60 + 10
        corpus_tokens = self.prepared.corpus_bytes / probe["bytes_a_token"]
        if training.max_steps is not None:
            row_tokens = float(training.max_length or probe["max_length"])
            if training.layout == "documents" and (num_documents := self.prepared.num_rows.get("corpus")):
                row_tokens = min(row_tokens, corpus_tokens / num_documents)
            tokens = training.max_steps * training.batch_size * row_tokens
        elif training.max_tokens is not None:
            tokens = float(training.max_tokens)
        else:
            tokens = (training.num_train_epochs or 1) * corpus_tokens
        # The cost per token grows with the parameters that are used; pre-training also uses the output embedding.
        used = max(1, probe["num_parameters"] - probe["num_embedding_parameters"])
        seconds_per_token = probe["step_seconds"] / max(1, probe["tokens_a_step"])
        return tokens * seconds_per_token * (used + probe["num_embedding_parameters"]) / used

    def _finetuning(self, job: Job) -> float:
        probe, recipe = self.probe, load_recipe(FinetuneRecipe, None, job.sections)
        assert probe is not None
        training = recipe.training
        num_labels = job.labels or 0
        num_validation = num_for_choosing(num_labels)
        num_train = max(1, num_labels - num_validation)
        per_epoch = math.ceil(num_train / training.batch_size)
        epochs = training.num_train_epochs or finetuning_epochs(num_train, training.batch_size)
        steps = training.max_steps or math.ceil(epochs * per_epoch)
        num_evaluations = steps / per_epoch + 1
        scored = num_evaluations * (num_validation or num_train) + self.prepared.num_rows["test"]
        return (steps * probe["step_seconds"] + scored * probe["score_seconds"]) * self._relative_cost(job)

    def _relative_cost(self, job: Job) -> float:
        """Cost per token of a base that the study does not pre-train, relative to the model of the probe."""
        assert self.probe is not None
        place = str(job.sections["model"].get("base"))
        folder = base_folder(place) if is_boxed(place) else Path(place)
        file = next((at / "config.json" for at in (folder, folder / "bundle") if (at / "config.json").is_file()), None)
        if file is None or job.needs:  # the shape of the probe
            return 1.0
        config = read_json(file)
        width, inner = config["hidden_size"], config["intermediate_size"]
        products = 4 * width + (3 if config.get("activation") == "swiglu" else 2) * inner
        used = self.probe["num_parameters"] - self.probe["num_embedding_parameters"]
        overhead = OVERHEAD[self._device()]
        return max(1.0, (config["num_hidden_layers"] * width * products + overhead) / (used + overhead))

    def _device(self) -> str:
        assert self.probe is not None
        return "cpu" if "CPU" in self.probe["device"] else "cuda"


@dataclass(frozen=True)
class Preflight:
    """The estimated jobs, time, memory and disk of a study."""

    num_jobs: int
    num_done: int
    seconds: float
    memory_bytes: int | None
    disk_bytes: int | None
    device: str | None

    def sentence(self) -> str:
        """The estimate as one sentence."""
        done = f", of which {self.num_done} done" if self.num_done else ""
        memory = f", {_size(self.memory_bytes)} of memory" if self.memory_bytes else ""
        disk = f", {_size(self.disk_bytes)} of disk" if self.disk_bytes else ""
        where, how = (
            (f" on {self.device}", "estimated from a short test run") if self.device else ("", "rough estimate")
        )
        return f"{counted(self.num_jobs, 'job')}{done}; about {minutes(self.seconds)}{memory}{disk}{where} ({how})."


def estimate_study(
    jobs: Iterable[Job], estimator: Estimator, *, parallel: int, keep: str, by_stages: bool = True
) -> Preflight:
    """Time, memory and disk of the jobs that are not done."""
    every = list(jobs)
    left = [job for job in every if not job.is_done]
    each = {job.id: estimator.seconds(job) for job in left}
    by_stage: dict[int, list[float]] = {}
    for job in left:
        by_stage.setdefault(job.stage, []).append(each[job.id])
    seconds = sum(max(max(part), sum(part) / parallel) for part in by_stage.values())
    if not by_stages and left:
        ends: dict[str, float] = {}
        for job in left:  # a job comes after the jobs that it needs
            ends[job.id] = each[job.id] + max((ends.get(need, 0.0) for need in job.needs), default=0.0)
        seconds = max(*ends.values(), sum(each.values()) / parallel)
    probe = estimator.probe
    if probe is None:
        return Preflight(len(every), len(every) - len(left), seconds, None, None, None)
    model = probe["num_parameters"] * BYTES_PER_PARAMETER
    kept = sum({"pretrain": 1, "finetune": COPIES_KEPT[keep]}.get(job.kind, 0) for job in left)
    memory = probe["peak_memory_bytes"]
    return Preflight(
        num_jobs=len(every),
        num_done=len(every) - len(left),
        seconds=seconds,
        memory_bytes=memory * parallel if memory else None,
        disk_bytes=model * (kept + COPIES_WHILE_TRAINING * parallel) if left else 0,
        device=probe["device"],
    )


def minutes(seconds: float) -> str:
    """`40 s`, `12 min`, `3.2 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 90 * 60 else f"{seconds / 3600:.1f} h"


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e9:.1f} GB" if num_bytes >= 1e9 else f"{num_bytes / 1e6:.0f} MB"
