"""A number a text."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from headswap.batches.labelled_rows import EncodedSet
from headswap.bundle.bundle import Bundle
from headswap.bundle.task_state import TaskState
from headswap.core.errors import InputError
from headswap.data.config import ColumnSettings
from headswap.data.labelled import number
from headswap.data.records import Example
from headswap.metrics.regression import regression_metrics
from headswap.tasks.predictions import ValuePrediction
from headswap.tasks.text_task import TextTask

NUM_STRATA = 5


class RegressTask(TextTask):
    """Squared error. Targets are standardised inside, so that one learning rate fits stars and prices alike; answers
    and errors are in the unit of the labels."""

    name = "regress"
    product = "regression model"
    metrics = ("mse", "mae", "pearson", "spearman", "r2", "loss")
    shown = ("mse", "mae", "pearson", "r2")

    def parse(self, columns: ColumnSettings) -> Any:
        """A finite number."""
        return number

    def labels(self, train: Sequence[Example]) -> tuple[str, ...]:
        """The head's one output."""
        return ("value",)

    def check(self, examples: Sequence[Example], labels: Sequence[str], *, role: str) -> None:
        """Any number will do."""

    def begin(self, state: TaskState, train: Sequence[Example]) -> TaskState:
        """Mean and spread of the training targets."""
        values = np.array([example.value for example in train])
        if not values.std() > 0:
            raise InputError(f"{train[0].source}: all labels are {values[0]:g}, so there is nothing to learn.")
        return state.changed(target_mean=float(values.mean()), target_std=float(values.std()))

    def strata(self, examples: Sequence[Example]) -> list[str]:
        """Fifths of the values."""
        values = np.array([example.value for example in examples])
        bounds = np.unique(np.quantile(values, np.arange(1, NUM_STRATA) / NUM_STRATA))
        return [str(part) for part in np.searchsorted(bounds, values, side="right")]

    def targets(self, examples: Sequence[Example], bundle: Bundle) -> np.ndarray:
        """Standardised values."""
        values = np.array([example.value for example in examples])
        return ((values - bundle.task.target_mean) / bundle.task.target_std).astype(np.float32)

    def average(self, scores: np.ndarray) -> np.ndarray:
        """The mean."""
        return scores.mean(axis=0)

    def measure(
        self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle, *, is_final: bool = False
    ) -> dict[str, Any]:
        """Errors in the unit of the labels, correlations, and the share of variance explained."""
        values = np.array([example.value for example in encoded.examples])
        metrics = regression_metrics(values, self._values(outputs, encoded, bundle), is_final=is_final)
        return {"loss": metrics["mse"] / bundle.task.target_std**2} | metrics

    def answers(self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle) -> list[ValuePrediction]:
        """The number, in the unit of the labels."""
        return [ValuePrediction(float(value)) for value in self._values(outputs, encoded, bundle)]

    def _values(self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle) -> np.ndarray:
        standardised = self.scores(outputs, encoded)[:, 0].astype(np.float64)
        return standardised * bundle.task.target_std + bundle.task.target_mean
