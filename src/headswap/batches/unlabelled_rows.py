"""Batches of labelled rows and of unlabelled rows in two views: as they are, and changed (token dropout).

A batch has the labelled rows of the step first, then the unlabelled ones, then their changed views. `views_2P` has the
places of both views, `view_weights_P` the weight of each pair, which rises linearly over the first steps. All of it is
a pure function of the step, so one training loop serves fine-tuning with and without unlabelled texts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from headswap.batches.batch import Batch
from headswap.batches.labelled_rows import ExampleBatches, Row, RowChange, batch_of
from headswap.batches.order import rows_of_step
from headswap.core.random_streams import derive_seed


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
    is_off: bool = False
    """Whether unlabelled rows are left out from now on."""

    def micro_batches(self, step: int, *, count: int) -> list[Batch]:
        """The rows of a step, divided into at most `count` micro-batches."""
        parts = zip(
            np.array_split(self.labelled.numbers(step), count),
            np.array_split(self.numbers(step), count),
            strict=True,
        )
        return [
            self._batch([self.labelled.row(number, step) for number in own], numbers, step)
            for own, numbers in parts
            if len(own) or len(numbers)
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

    def _batch(self, labelled: list[Row], numbers: np.ndarray, step: int) -> Batch:
        originals = [self.rows[number] for number in numbers]
        changed = [
            self.change(row, number=int(number), step=step) for row, number in zip(originals, numbers, strict=True)
        ]
        batch = batch_of([*labelled, *originals, *changed], is_per_token=False)
        views = len(labelled) + np.arange(2 * len(numbers)).reshape(2, len(numbers))
        return replace(
            batch,
            documents=batch.documents[: len(labelled)],  # an error message lists labelled examples only
            views_2P=torch.from_numpy(views),
            view_weights_P=torch.full((len(numbers),), self.weight_at(step)),
        )
