"""Distillation: one model learns from the averaged probabilities of several fine-tuned ones (`teachers`).

The rows of a run are the labelled texts with their labels and the unlabelled texts with the mean probabilities of the
teachers. Both are targets of one cross entropy, so order, micro-batches and captured steps are those of any
fine-tuning. The teachers are applied once, before the first step. Teachers that were trained on texts of the validation
set make its scores too high; the test set is not affected.

Shapes: R unlabelled texts, C labels.
"""

import hashlib
import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from headswap.batches.labelled_rows import EncodedSet, Row
from headswap.bundle.bundle import WEIGHTS, Bundle, find_bundle
from headswap.core.errors import InputError, SettingError, counted
from headswap.core.files import sha256_of_file
from headswap.data.records import Example
from headswap.finetuning.config import ConsistencySettings
from headswap.inference.average import averaged, check_can_be_averaged
from headswap.tasks.task import Task

log = logging.getLogger("headswap")


def check_teachers(settings: ConsistencySettings) -> None:
    """Raise if there are no texts for the teachers, or settings of consistency training, which is not used."""
    if not settings.teachers:
        return
    if not settings.unlabelled:
        raise SettingError("teachers need texts without labels that they predict. Pass --unlabelled FILE.")
    names = [name for name in ConsistencySettings.model_fields if name not in ("unlabelled", "teachers")]
    if given := settings.not_default(names):
        raise SettingError(
            f"{', '.join(given)}: only used in consistency training, which --teachers replaces. Remove one of them."
        )


def teachers_checksum(teachers: Sequence[str]) -> str:
    """A checksum of the weights of all teachers, in their order."""
    hashes = [sha256_of_file(find_bundle(Path(teacher)) / WEIGHTS) for teacher in teachers]
    return hashlib.sha256(" ".join(hashes).encode()).hexdigest()[:32]


def distilled_rows(
    teachers: Sequence[str],
    task: Task,
    student: Bundle,
    train: EncodedSet,
    unlabelled: Sequence[Example],
    *,
    device: torch.device,
    autocast: AbstractContextManager,
) -> list[Row]:
    """The labelled rows with their labels and the unlabelled rows with the teachers' probabilities, C numbers per row.

    Unlabelled texts are numbered after the labelled ones.
    """
    loaded = [Bundle.load(teacher, device=device) for teacher in teachers]
    check_can_be_averaged(loaded)
    if loaded[0].task.reads_pairs:
        raise InputError(
            f"The teacher {teachers[0]} reads pairs of texts, and the unlabelled texts are single ones. Use teachers "
            "that were trained on single texts."
        )
    if other := sorted(set(loaded[0].labels) ^ set(student.labels)):
        raise InputError(
            f"The teacher {teachers[0]} and the training set do not have the same labels: only one of them has "
            f"'{other[0]}'. Use teachers that were trained on these labels."
        )
    if len(loaded) == 1:
        log.info("Only one teacher is given; several with different seeds or bases usually give better targets.")
    probabilities_RC = np.exp(np.stack(averaged(loaded, unlabelled, autocast=autocast).outputs))
    order = [loaded[0].labels.index(label) for label in student.labels]
    probabilities_RC = (probabilities_RC / probabilities_RC.sum(axis=1, keepdims=True))[:, order].astype(np.float32)
    labels_CC, index = np.eye(len(student.labels), dtype=np.float32), np.zeros(1, dtype=np.int64)
    rows = [replace(row, target_value=labels_CC[row.target_value]) for row in train.rows]
    rows += [
        Row(len(train) + row.example, row.ids, row.segments, index, probabilities_RC[row.example : row.example + 1])
        for row in task.encode_inputs(unlabelled, student).rows  # single texts: there is no file of unlabelled pairs
    ]
    log.info(
        "Distillation: the mean probabilities of %s are the targets of %s; their highest one is %.2f on average.",
        counted(len(loaded), "teacher"),
        counted(len(unlabelled), "unlabelled text"),
        float(probabilities_RC.max(axis=1).mean()),
    )
    return rows
