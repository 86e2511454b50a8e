"""The answers of other systems as runs of a study: read when the study is planned, then copied into its folder.

A run of another system has a folder as every other job. It contains the answers in the form of `predictions.npz`, so
the report is computed from the study folder alone, and a changed file of answers makes new runs.
"""

import hashlib
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from headswap.core.atomic_folder import discard_folder
from headswap.core.errors import Collected
from headswap.core.files import write_json
from headswap.data.labelled import read_labelled
from headswap.data.records import Example, whole_text
from headswap.finetuning.prediction_file import Predictions, group_ids, text_ids
from headswap.study.jobs.damage_records import write_record
from headswap.study.jobs.job_outputs import write_checksums
from headswap.study.setup.answer_file import VERB, Answers, TargetRows, read_answers
from headswap.study.setup.arms import Arm
from headswap.study.setup.config import StudyRecipe
from headswap.study.setup.prepare import Prepared
from headswap.study.setup.row_files import GROUP
from headswap.tasks.text_task import PAIR

if TYPE_CHECKING:
    from headswap.study.jobs.planned_jobs import Plan

log = logging.getLogger("headswap")
VERSION = 1
"""Part of the ids of these jobs; raised when their files change."""


def target_rows(examples: Sequence[Example], labels: Sequence[str]) -> TargetRows:
    """The rows of a test set, in the form in which answers are checked."""
    numbers = {label: number for number, label in enumerate(labels)}
    targets = np.array([numbers[example.label] for example in examples])
    return TargetRows(
        targets, tuple(labels), text_ids([whole_text(example) for example in examples]), group_ids(examples)
    )


def read_arm_answers(
    arms: Sequence[Arm], prepared: Prepared, budgets: Sequence[str], recipe: StudyRecipe, test: Path
) -> dict[str, Answers]:
    """The answers of the arms that are other systems, to the rows of `test`; problems of all files are one error."""
    others = {arm.name: arm.answers for arm in arms if arm.answers is not None}
    if not others:
        return {}
    group = GROUP if recipe.data.group_column is not None else None
    pair = PAIR if recipe.data.text_pair_column is not None else None
    examples = read_labelled(
        str(test), text_column="text", label_column="label", group_column=group, text_pair_column=pair
    )
    rows = target_rows(examples, prepared.labels)
    names = {str(prepared.num_labels(budget)): budget for budget in budgets} | {budget: budget for budget in budgets}
    found: dict[str, Answers] = {}
    collected = Collected()
    for name, file in others.items():
        with collected.trying():
            found[name] = read_answers(file, rows, budgets=names, seeds=range(1, recipe.study.seeds + 1))
    collected.raise_found()
    return found


def predictions_digest(predictions: Predictions) -> str:
    """A hash of the answers of one run."""
    content = np.ascontiguousarray(predictions.probabilities, dtype=np.float32).tobytes()
    return hashlib.sha256(content + str(predictions.has_scores).encode()).hexdigest()


def import_answers(plan: "Plan") -> None:
    """Write the run folders of other systems; those that are there and intact stay as they are."""
    by_cell = {entry.job: entry for entry in plan.entries}
    for job in plan.jobs.values():
        if job.kind != "answers" or job.is_done:
            continue
        folder = Path(job.folder)
        if why := job.damage:
            log.warning("%s was found damaged (%s) and is copied again.", folder, why)
            write_record(folder, why)
            discard_folder(folder)
        assert job.arm is not None
        answers = plan.answers[job.arm]
        budget = None if job.labels is None else by_cell[job.id].budget
        predictions = answers.cells[budget, by_cell[job.id].seed]
        predictions.save(folder)
        write_json(folder / "data.json", {})
        write_json(folder / "result.json", result_of(job.arm, answers.record(), predictions))
        write_checksums(folder)


def result_of(arm: str, record: Mapping[str, str], predictions: Predictions) -> dict[str, object]:
    """The `result.json` of a run of another system."""
    return {"verb": VERB, "arm": arm, **record, "has_scores": predictions.has_scores}
