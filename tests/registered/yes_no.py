"""A new task: whether a text is positive."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headswap.batches.labelled_rows import EncodedSet
from headswap.bundle.bundle import Bundle
from headswap.data.config import ColumnSettings
from headswap.data.labelled import Parsed
from headswap.data.records import Example
from headswap.objectives.supervised import ClassificationObjective
from headswap.tasks.config import TaskSettings
from headswap.tasks.text_task import TextTask


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
    """Whether a text is positive."""

    name = "yesno"
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
