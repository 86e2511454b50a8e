"""Regression: one number per text."""

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
from headswap.objectives.supervised import RegressionObjective
from headswap.tasks.config import TaskSettings
from headswap.tasks.predictions import ValuePrediction
from headswap.tasks.text_task import TextTask

NUM_STRATA = 5


class RegressTask(TextTask):
    """Squared error. The model is trained on standardised targets, so that one learning rate fits targets of any scale;
    predictions and errors are in the unit of the labels."""

    name = "regress"
    num_outputs = 1
    product = "regression model"
    selection_metrics = ("mse", "mae", "pearson", "spearman", "r2", "loss")
    logged_metrics = ("mse", "mae", "pearson", "r2")
    table_metrics = ("mse", "mae", "pearson", "spearman", "r2")
    problem_type = "regression"
    lists_labels = False
    prediction_kind = "values"
    study_metrics = ("r2", "pearson")

    def parse(self, columns: ColumnSettings) -> Any:
        """The label as a finite number."""
        return number

    def labels(self, train: Sequence[Example]) -> tuple[str, ...]:
        """The name of the one output of the head."""
        return ("value",)

    def check(self, examples: Sequence[Example], labels: Sequence[str], *, role: str) -> None:
        """Every number is allowed."""

    def initial_state(self, state: TaskState, train: Sequence[Example]) -> TaskState:
        """Mean and standard deviation of the training targets."""
        values = np.array([example.value for example in train])
        if not values.std() > 0:
            raise InputError(f"{train[0].source}: all labels are {values[0]:g}, so there is nothing to learn.")
        return state.changed(target_mean=float(values.mean()), target_std=float(values.std()))

    def strata(self, examples: Sequence[Example]) -> list[str]:
        """The quintile of each value."""
        values = np.array([example.value for example in examples])
        bounds = np.unique(np.quantile(values, np.arange(1, NUM_STRATA) / NUM_STRATA))
        return [str(part) for part in np.searchsorted(bounds, values, side="right")]

    def targets(self, examples: Sequence[Example], bundle: Bundle) -> np.ndarray:
        """Standardised values."""
        values = np.array([example.value for example in examples])
        return ((values - bundle.task.target_mean) / bundle.task.target_std).astype(np.float32)

    def objective(self, training: TaskSettings, encoded: EncodedSet, labels: Sequence[str]) -> RegressionObjective:
        """Squared error."""
        return RegressionObjective()

    def average(self, scores: np.ndarray) -> np.ndarray:
        """The mean."""
        return scores.mean(axis=0)

    def evaluate(
        self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle, *, is_final: bool = False
    ) -> dict[str, Any]:
        """Errors in the unit of the labels, correlations, and the share of variance explained."""
        values = np.array([example.value for example in encoded.examples])
        metrics = regression_metrics(values, self._values(outputs, encoded, bundle), is_final=is_final)
        return {"loss": metrics["mse"] / bundle.task.target_std**2} | metrics

    def predictions(self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle) -> list[ValuePrediction]:
        """The number, in the unit of the labels."""
        return [ValuePrediction(float(value)) for value in self._values(outputs, encoded, bundle)]

    def _values(self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle) -> np.ndarray:
        standardised = self.scores(outputs, encoded)[:, 0].astype(np.float64)
        return standardised * bundle.task.target_std + bundle.task.target_mean
