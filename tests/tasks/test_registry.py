"""The table of tasks: a new task is one class and one line, and every verb works with it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pytest

import headswap as hs
from headswap.batches.labelled_rows import EncodedSet
from headswap.bundle.bundle import Bundle
from headswap.bundle.task_state import TaskState
from headswap.cli.exit_codes import run
from headswap.data.config import ColumnSettings, LabelledSettings, TaskName
from headswap.data.labelled import Parsed
from headswap.data.records import Example
from headswap.finetuning.config import FinetuneRecipe
from headswap.objectives.supervised import ClassificationObjective
from headswap.tasks.config import TaskSettings
from headswap.tasks.registry import TASKS, chosen_task, named_task
from headswap.tasks.text_task import TextTask
from new_names import allowed
from task_data import ROWS, write_rows
from tiny import sentences

pytestmark = pytest.mark.usefixtures("one_thread")
NAMES = Literal["classify", "multilabel", "regress", "tag", "span", "yesno"]


@dataclass(frozen=True)
class YesNoPrediction:
    """Yes or no."""

    is_yes: bool

    @property
    def short(self) -> bool:
        return self.is_yes

    def as_json(self) -> dict[str, Any]:
        return {"yes": self.is_yes}

    def as_line(self) -> str:
        return "yes" if self.is_yes else "no"


class YesNoTask(TextTask):
    """A task that no other file knows: whether a text is positive."""

    name = "yesno"  # type: ignore[assignment]
    product = "yes-no model"
    selection_metrics = ("accuracy", "loss")
    logged_metrics = ("accuracy",)
    table_metrics = ("accuracy",)

    def parse(self, columns: ColumnSettings) -> Any:
        return lambda value: Parsed("yes" if value == "pos" else "no")

    def labels(self, train: Sequence[Example]) -> tuple[str, ...]:
        return ("no", "yes")

    def check(self, examples: Sequence[Example], labels: Sequence[str], *, role: str) -> None:
        assert {example.label for example in examples} <= set(labels)

    def targets(self, examples: Sequence[Example], bundle: Bundle) -> np.ndarray:
        return np.array([int(example.label == "yes") for example in examples])

    def average(self, scores: np.ndarray) -> np.ndarray:
        return scores.mean(axis=0)

    def objective(self, training: TaskSettings, encoded: EncodedSet, labels: Sequence[str]) -> ClassificationObjective:
        return ClassificationObjective()

    def evaluate(
        self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle, *, is_final: bool = False
    ) -> dict[str, Any]:
        is_right = self.scores(outputs, encoded).argmax(axis=1) == self.targets(encoded.examples, bundle)
        interval = {"interval": {"low": 0.0, "high": 1.0}} if is_final else {}
        return {
            "accuracy": float(is_right.mean()),
            "loss": 1 - float(is_right.mean()),
            "num_examples": len(is_right),
        } | interval

    def predictions(self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle) -> list[YesNoPrediction]:
        return [YesNoPrediction(bool(number)) for number in self.scores(outputs, encoded).argmax(axis=1)]


@pytest.fixture
def yes_no(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The task is registered, and its name is allowed where settings name a task, as a change of TaskName does it."""
    monkeypatch.setitem(TASKS, "yesno", YesNoTask())  # type: ignore[arg-type]
    with allowed(NAMES | None, "task", [TaskState, LabelledSettings], [FinetuneRecipe]):
        yield


@pytest.mark.usefixtures("yes_no")
def test_a_new_task_is_one_class_and_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train = write_rows(tmp_path / "train.jsonl", ROWS["classify"](240, seed=1))
    test = write_rows(tmp_path / "test.jsonl", ROWS["classify"](40, seed=2))
    made = hs.finetune(
        "scratch", train=train, test=test, task="yesno", out=tmp_path / "run", hidden_size=32, num_hidden_layers=1,
        num_attention_heads=2, intermediate_size=48, kind="word", max_length=40, dropout=0.0, learning_rate=5e-3,
        num_train_epochs=5, device="cpu", threads=1,
    )  # fmt: skip
    assert made.result["task"] == "yesno"
    assert made.result["test"]["accuracy"] > 0.9
    assert made.result["baselines"] == {}
    good, bad = (next(text for text, label in sentences(10, seed=3) if label == own) for own in ("pos", "neg"))
    assert made.model.predict([good, bad]) == [True, False]
    assert made.model.evaluate(test)["accuracy"] == made.result["test"]["accuracy"]
    assert run(["predict", str(made.path), good, bad]) == 0
    assert capsys.readouterr().out.splitlines() == ["yes", "no"]
    assert run(["evaluate", str(made.path), str(test), "--device=cpu"]) == 0
    assert "accuracy" in capsys.readouterr().out


def test_every_task_name_of_the_settings_is_registered() -> None:
    assert set(TASKS) == set(get_args(TaskName))
    assert all(name == task.name for name, task in TASKS.items())
    assert named_task(None) is TASKS["classify"]


@pytest.mark.parametrize("task", ROWS)
def test_the_task_of_a_training_file_is_detected_except_for_a_regression(tmp_path: Path, task: str) -> None:
    file = write_rows(tmp_path / "train.jsonl", ROWS[task](3))
    found = chosen_task(LabelledSettings(train=str(file))).name
    assert found == ("classify" if task == "regress" else task)
