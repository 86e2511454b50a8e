"""The task that a name, a bundle or a training file stands for."""

from pathlib import Path

import pytest

from headswap.data.config import LabelledSettings
from headswap.registry import TASKS
from headswap.tasks.choose import chosen_task, named_task
from task_data import ROWS, write_rows


@pytest.mark.parametrize("task", TASKS)
def test_a_task_has_the_name_it_is_registered_under(task: str) -> None:
    assert named_task(task).name == task


def test_classify_is_the_task_where_none_is_recorded() -> None:
    assert named_task(None).name == "classify"


@pytest.mark.parametrize("task", ROWS)
def test_the_task_of_a_training_file_is_detected_except_for_a_regression(tmp_path: Path, task: str) -> None:
    file = write_rows(tmp_path / "train.jsonl", ROWS[task](3))
    found = chosen_task(LabelledSettings(train=str(file))).name
    assert found == ("classify" if task == "regress" else task)
