"""The task of a name, of a bundle, or of a training file."""

import logging
from pathlib import Path
from typing import Any

from headswap.bundle.bundle import Bundle
from headswap.core.errors import InputError
from headswap.data.columns import COLUMN_EXTENSIONS, Problems, read_rows
from headswap.data.config import LabelledSettings
from headswap.data.labelled import one_file
from headswap.data.named_sets import is_named
from headswap.data.open_text import extension_of
from headswap.data.questions import is_nested
from headswap.data.tagged import CONLL_EXTENSIONS
from headswap.registry import TASKS, TaskName
from headswap.tasks.task import Task

log = logging.getLogger("headswap")
DEFAULT_TASK = "classify"
"""The task where none is given or recorded."""


def named_task(name: TaskName | None) -> Task:
    """The task of a name; None means the default."""
    return TASKS.load(name or DEFAULT_TASK)()


def task_of(bundle: Bundle) -> Task:
    """The task that a bundle was fine-tuned for; for a language model an error."""
    if bundle.model.shape.head == "lm":
        raise InputError(
            f"{bundle.path or 'This bundle'} is a language model without a classification head. "
            f"Fine-tune it first (headswap finetune --base ...), or use headswap {bundle.verb}."
        )
    task = named_task(bundle.task.task)
    outputs = task.num_outputs or len(bundle.labels)
    if bundle.model.shape.head not in task.heads(bundle.task) or len(bundle.labels) != outputs:
        raise InputError(
            f"{bundle.path or 'This bundle'} has a head for {bundle.model.shape.head} with {len(bundle.labels)} "
            f"outputs, which does not fit its task {task.name}. Restore config.json from a copy."
        )
    return task


def chosen_task(data: LabelledSettings) -> Task:
    """The task that is set, or the one that the training file is for."""
    if data.task is not None:
        return named_task(data.task)
    name, reason = detect_task(data)
    if name != DEFAULT_TASK:
        log.info("The task is %s: %s. Override with --task.", name, reason)
    return named_task(name)


def detect_task(data: LabelledSettings) -> tuple[TaskName, str]:
    """The task of a training file, and the reason. A number may be a class, so a regression is never detected."""
    assert data.train is not None
    default = DEFAULT_TASK, "it has one label per text"
    if is_named(data.train) or data.label_file:
        return default
    path = one_file(data.train)
    if extension_of(path) in CONLL_EXTENSIONS:
        return "tag", f"{path} is a file of words and tags"
    if is_nested(path):
        return "span", f"{path} has the format of SQuAD"
    if extension_of(path) not in COLUMN_EXTENSIONS:
        return default
    row = _first_row(path, {"label_column": data.label_column})
    if row is None:
        columns: dict[TaskName, dict[str, str]] = {
            "tag": {"tokens_column": data.tokens_column, "tags_column": data.tags_column},
            "span": {"question_column": data.question_column, "answers_column": data.answers_column},
        }
        for name, wanted in columns.items():
            if _first_row(path, wanted) is not None:
                return name, f"{path} has the columns {' and '.join(wanted.values())}"
    if row and isinstance(row[0], list):
        return "multilabel", f"the labels of {path} are lists"
    return default


def _first_row(path: Path, wanted: dict[str, str]) -> list[Any] | None:
    """The wanted values of the first row, or None if a column is missing or the file cannot be read."""
    try:
        return next((values for _, values in read_rows(path, wanted, Problems())), None)
    except InputError:
        return None
