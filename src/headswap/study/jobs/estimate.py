"""Estimate the time of every job of a study before it starts, from a short probe.

The estimates are pure functions of the probe's measurements and of the config files of bases that the study does
not pre-train. They are corrected by the times of finished jobs.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headswap.baselines.lsa_space import MOST_CHARACTERS, MOST_DOCUMENTS
from headswap.core.files import read_json
from headswap.core.installed_bases import base_folder, is_boxed
from headswap.core.public_checkpoints import checkpoint_folder, is_checkpoint
from headswap.core.settings import load_recipe
from headswap.defaults.finetuning import EVALUATIONS_ON_TRAIN, batch_size_of, finetuning_epochs
from headswap.defaults.pretraining import adaptation_epochs
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.consistency import MOST_TEXTS, NUM_CHECKED
from headswap.finetuning.splits import num_for_choosing
from headswap.pretraining.config import AdaptRecipe, PretrainRecipe
from headswap.registry import LINEAR_MODELS
from headswap.study.jobs.planned_jobs import BASE_KINDS, Job
from headswap.study.setup.arms import baselines_of
from headswap.study.setup.prepare import Prepared
from headswap.study.setup.row_files import CORPUS, ROLES, TEXTS
from headswap.tasks.choose import named_task

START_SECONDS = {"cpu": 1.0, "cuda": 4.0}
"""Reading rows, encoding and saving in a warm worker, before finished jobs correct the estimate."""
OVERHEAD = {"cpu": 0.8e6, "cuda": 20e6}
"""Fixed cost of a step in parameters: the times of small models differ less than their sizes."""
RDROP_COST, ADVERSARIAL_COST = 2.0, 7 / 3
"""Cost of a step relative to one without: two passes, or two passes and a backward pass to the embeddings (a backward
pass to all weights costs two forward passes, one to the embeddings alone costs one)."""
BASELINE_SECONDS = 1.0


@dataclass
class Estimator:
    """Seconds per job, corrected by the times of finished jobs."""

    probe: Mapping[str, Any] | None
    prepared: Prepared
    finished: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Estimated and actual seconds of finished jobs, per kind."""
    adapted: Mapping[str, str] = field(default_factory=dict)
    """Per folder of an adaptation, the base that is adapted."""
    shapes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Per folder of a pre-training, the shape of its base."""

    def seconds(self, job: Job) -> float:
        """Estimated seconds of a job."""
        estimated, actual = self.finished.get(job.kind, (0.0, 0.0))
        return self._uncorrected(job) * (actual / estimated if estimated else 1.0)

    def record(self, job: Job, seconds: float) -> None:
        """Correct later estimates by the time of a finished job."""
        estimated, actual = self.finished.get(job.kind, (0.0, 0.0))
        self.finished[job.kind] = estimated + self._uncorrected(job), actual + seconds

    def _uncorrected(self, job: Job) -> float:
        if job.kind == "answers":
            return 0.0  # they are copied before the first estimate
        if job.kind == "tokenizer":
            return 5.0 + self.prepared.corpus_bytes / 20e6
        if job.kind == "sample":
            return BASELINE_SECONDS + self.prepared.corpus_bytes / 20e6
        if job.kind == "space":
            return BASELINE_SECONDS + min(self.prepared.corpus_bytes, MOST_DOCUMENTS * MOST_CHARACTERS) / 2e6
        if job.kind == "linear":
            kind = named_task(job.sections.get("data", {}).get("task")).prediction_kind or ""
            return BASELINE_SECONDS + (job.labels or 0) * LINEAR_MODELS.load(kind).seconds_per_label
        if job.kind == "baseline":
            task = job.sections.get("data", {}).get("task")
            texts = (job.labels or 0) * 6 + self.prepared.num_rows["test"]
            return BASELINE_SECONDS + texts * baselines_of(task).load(job.arm or "").seconds_per_text
        if self.probe is None:
            return 60.0
        if job.kind == "embed":
            rows = sum(self.prepared.num_rows.get(role, 0) for role in ROLES)
            return START_SECONDS[self._device()] + rows * self.probe["score_seconds"] * self._relative_cost(job)
        work = self._finetuning(job) if job.kind == "finetune" else self._of_base(job)
        return START_SECONDS[self._device()] + work

    def _of_base(self, job: Job) -> float:
        """Seconds of a pre-training or an adaptation."""
        probe, is_new = self.probe, job.kind == "pretrain"
        assert probe is not None
        kind: type[PretrainRecipe] | type[AdaptRecipe] = PretrainRecipe if is_new else AdaptRecipe
        training = load_recipe(kind, None, job.sections).training
        num_bytes = self.prepared.corpus_bytes + (0 if is_new else Path(self.prepared.texts).stat().st_size)
        corpus_tokens = num_bytes / probe["bytes_a_token"]
        row_tokens = float(training.max_length or probe["max_length"])
        if training.layout == "documents" and (num_documents := self.prepared.num_rows.get("corpus")):
            row_tokens = min(row_tokens, corpus_tokens / num_documents)
        step_tokens = training.batch_size * row_tokens
        if training.max_steps is not None:
            tokens = training.max_steps * step_tokens
        elif training.max_tokens is not None:
            tokens = float(training.max_tokens)
        else:
            default = 1.0 if is_new else adaptation_epochs(round(corpus_tokens))
            tokens = (training.num_train_epochs or default) * corpus_tokens
        seconds_per_token = probe["step_seconds"] / max(1, probe["tokens_a_step"])
        seconds = tokens * seconds_per_token * self._relative_cost(job, step_tokens=step_tokens)
        if training.max_minutes is None:
            return seconds
        limit = training.max_minutes * 60 + 10
        return limit if is_new else min(limit, seconds)

    def _finetuning(self, job: Job) -> float:
        probe, recipe = self.probe, load_recipe(FinetuneRecipe, None, job.sections)
        assert probe is not None
        training = recipe.training
        num_labels = job.labels or 0
        num_validation = 0 if recipe.data.validation else num_for_choosing(num_labels, recipe.data.hold_out_from)
        num_train = max(1, num_labels - num_validation)
        batch_size = batch_size_of(training, num_train)
        num_rows = max(1, round(num_train * probe.get("rows_a_text", 1.0)))  # a long text has several windows
        per_epoch = math.ceil(num_rows / batch_size)
        epochs = training.num_train_epochs or finetuning_epochs(num_rows, batch_size)
        steps = training.max_steps or math.ceil(epochs * per_epoch)
        num_evaluations = steps / per_epoch
        if not (num_validation or recipe.data.validation or recipe.consistency.unlabelled):
            num_evaluations = min(num_evaluations, EVALUATIONS_ON_TRAIN)
        num_evaluations += 1
        scored = num_evaluations * (num_validation or num_train) + self.prepared.num_rows["test"]
        cost_of_step = 1.0
        if recipe.consistency.unlabelled:  # a step reads two views of each unlabelled text
            num_texts = min(MOST_TEXTS, self.prepared.num_rows.get(CORPUS, 0) + self.prepared.num_rows[TEXTS])
            num_unlabelled = min(num_texts, recipe.consistency.unlabelled_batch_size or 3 * batch_size)
            cost_of_step += 2 * num_unlabelled / min(batch_size, num_train)
            scored += num_evaluations * min(num_texts, NUM_CHECKED)
        cost_of_step *= RDROP_COST if training.rdrop_alpha else 1.0
        cost_of_step *= ADVERSARIAL_COST if training.adversarial_epsilon else 1.0
        seconds = (
            steps * cost_of_step * probe["step_seconds"] + scored * probe["score_seconds"]
        ) * self._relative_cost(job)
        return seconds * max(1, len(job.trials))

    def _relative_cost(self, job: Job, *, step_tokens: float | None = None) -> float:
        """Cost per token of the model of a job, relative to the model of the probe.

        It grows with the parameters that a token uses; in pre-training these are also the output embeddings. The fixed
        cost of a step is shared by the tokens of the step, by default as many as in a step of the probe.
        """
        probe, config = self.probe, self._config(job)
        assert probe is not None
        used_by_probe = used = probe["num_parameters"] - probe["num_embedding_parameters"]
        embeddings = probe["num_embedding_parameters"]
        if config is not None:  # otherwise the shape is that of the probe
            width, layers, inner = _sizes(config)
            products = 4 * width + (3 if "swiglu" in config.values() or "silu" in config.values() else 2) * inner
            used = layers * width * products
            vocab_size = probe.get("vocab_size", 0) if job.kind == "pretrain" else config.get("vocab_size", 0)
            embeddings = vocab_size * width
        if job.kind in BASE_KINDS:
            used += embeddings
        overhead = OVERHEAD[self._device()]
        shared = overhead if step_tokens is None else overhead * probe["tokens_a_step"] / step_tokens
        return max(used + shared, used_by_probe + shared) / (used_by_probe + overhead)

    def _config(self, job: Job) -> Mapping[str, Any] | None:
        """The shape of the base of a job; None from scratch."""
        place = job.folder if job.kind == "pretrain" else str(job.sections["model"].get("base"))
        if place in self.shapes:
            return self.shapes[place]
        place = self.adapted.get(place, place)
        if is_checkpoint(place):
            folder = checkpoint_folder(place)
        else:
            folder = base_folder(place) if is_boxed(place) else Path(place)
        file = next((at / "config.json" for at in (folder, folder / "bundle") if (at / "config.json").is_file()), None)
        return None if file is None else read_json(file)

    def _device(self) -> str:
        assert self.probe is not None
        return "cpu" if "CPU" in self.probe["device"] else "cuda"


def _sizes(config: Mapping[str, Any]) -> tuple[int, int, int]:
    """Width, layers and feed-forward width of a base, under the names of headswap or of a public checkpoint."""
    width = config.get("hidden_size") or config.get("n_embd") or config["dim"]
    layers = config.get("num_hidden_layers") or config.get("n_layer") or config["n_layers"]
    return (
        width,
        layers,
        config.get("intermediate_size") or config.get("n_inner") or config.get("hidden_dim") or 4 * width,
    )
