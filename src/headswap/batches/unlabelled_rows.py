"""Batches of labelled rows and of unlabelled rows in two views: as they are, and changed (tokens replaced or left out).

A batch has the labelled rows of the step first, then the unlabelled ones, then their changed views. `views_2P` has the
places of both views, `view_weights_P` the weight of each pair, which rises linearly over the first steps. All of it is
a pure function of the step, so one training loop serves fine-tuning with and without unlabelled texts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch

from headswap.batches.batch import Batch
from headswap.batches.labelled_rows import ExampleBatches, Row, RowChange, batch_of
from headswap.batches.order import rows_of_step
from headswap.core.random_streams import derive_seed


class RowsChange(Protocol):
    """Changes the inputs of all rows of a step together."""

    def __call__(self, rows: Sequence[Row], numbers: np.ndarray, step: int, /) -> list[Row]:
        """The rows with these numbers as they are read in a step."""


@dataclass
class ViewBatches:
    """Batches of labelled and unlabelled rows as a pure function of the step."""

    labelled: ExampleBatches
    rows: Sequence[Row]
    """The unlabelled rows."""
    batch_size: int
    """Unlabelled rows per step."""
    change: RowChange
    weight: float
    ramp_steps: int
    """Steps in which the weight rises to its full value."""
    replacements: RowsChange | None = None
    """Replaces tokens of the changed view, before `change`."""
    is_off: bool = False
    """Whether unlabelled rows are left out from now on."""

    def micro_batches(self, step: int, *, count: int) -> list[Batch]:
        """The rows of a step, divided into at most `count` micro-batches."""
        numbers = self.numbers(step)
        changed = self._changed(numbers, step)
        own_parts = np.array_split(self.labelled.numbers(step), count)
        place_parts = np.array_split(np.arange(len(numbers)), count)
        return [
            self._batch(
                [self.labelled.row(number, step) for number in own],
                numbers[places],
                [changed[at] for at in places],
                step,
            )
            for own, places in zip(own_parts, place_parts, strict=True)
            if len(own) or len(places)
        ]

    def numbers(self, step: int) -> np.ndarray:
        """Which unlabelled rows a step reads."""
        if self.is_off:
            return np.zeros(0, dtype=np.int64)
        size, seed = min(self.batch_size, len(self.rows)), derive_seed(self.labelled.seed, "unlabelled")
        return rows_of_step(step, num_rows=len(self.rows), batch_size=size, seed=seed)

    def weight_at(self, step: int) -> float:
        """The weight of a pair of views in a step."""
        return self.weight * min(1.0, (step + 1) / max(1, self.ramp_steps))

    def _changed(self, numbers: np.ndarray, step: int) -> list[Row]:
        """The changed views of a step."""
        rows = [self.rows[number] for number in numbers]
        if self.replacements is not None and rows:
            rows = self.replacements(rows, numbers, step)
        return [self.change(row, number=int(number), step=step) for row, number in zip(rows, numbers, strict=True)]

    def _batch(self, labelled: list[Row], numbers: np.ndarray, changed: list[Row], step: int) -> Batch:
        originals = [self.rows[number] for number in numbers]
        batch = batch_of([*labelled, *originals, *changed], is_per_token=False)
        views = len(labelled) + np.arange(2 * len(numbers)).reshape(2, len(numbers))
        return replace(
            batch,
            documents=batch.documents[: len(labelled)],  # an error message lists labelled examples only
            views_2P=torch.from_numpy(views),
            view_weights_P=torch.full((len(numbers),), self.weight_at(step)),
        )
