"""A number a text."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from headswap.bundle import Bundle
from headswap.core.errors import InputError
from headswap.model.config import TaskState
from headswap.text.config import ColumnSettings
from headswap.text.labelled import number
from headswap.text.records import Example
from headswap.training.answers import ValuePrediction
from headswap.training.resample import interval_of
from headswap.training.rows import EncodedSet
from headswap.training.tasks.texts import TextTask

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


def regression_metrics(truth: np.ndarray, predicted: np.ndarray, *, is_final: bool = False) -> dict[str, Any]:
    """MSE, MAE, both correlations and R2; None where a side never varies, so that there is no correlation."""
    errors = predicted - truth
    spread = float(np.square(truth - truth.mean()).sum())
    metrics: dict[str, Any] = {
        "mse": float(np.square(errors).mean()),
        "mae": float(np.abs(errors).mean()),
        "pearson": correlation(truth, predicted),
        "spearman": correlation(ranks(truth), ranks(predicted)),
        "r2": float(1 - np.square(errors).sum() / spread) if spread else None,
        "num_examples": len(truth),
    }
    if is_final:
        counts = np.stack([np.square(errors), np.ones(len(truth))], axis=1)
        metrics["interval"] = interval_of("mse", counts, lambda sums: sums[..., 0] / sums[..., 1], is_share=False)
    return metrics


def correlation(first: np.ndarray, second: np.ndarray) -> float | None:
    """Pearson's, or None where one side never varies."""
    if any(np.ptp(side) <= 1e-12 * np.abs(side).max() for side in (first, second)):
        return None
    first, second = first - first.mean(), second - second.mean()
    return float((first * second).sum() / np.sqrt(np.square(first).sum() * np.square(second).sum()))


def ranks(values: np.ndarray) -> np.ndarray:
    """Ranks from 0; equal values share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return ((ends - counts + ends - 1) / 2)[inverse]
