"""Labelled rows: sequences with what is to be predicted in them, and batches of them as a pure function of the step.

A text, a pair or a sentence is one row; a long one may be several, its windows. A task makes them (tasks/), the loop
and the scoring read them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headswap.batches.batch import Batch, flat_batch
from headswap.batches.order import rows_of_step

NOTHING = np.zeros(0, dtype=np.int64)


def nothing() -> np.ndarray:
    """No numbers."""
    return NOTHING


@dataclass(frozen=True)
class Row:
    """One sequence of a batch: token ids, and targets as (position in the row, value)."""

    example: int
    """The number of the example it comes from."""
    ids: np.ndarray
    segments: np.ndarray | None = None
    """0 or 1 a token, where the base tells two texts apart by them."""
    target_index: np.ndarray = field(default_factory=nothing)
    """The tokens that have a target; of a row that is scored whole, 0."""
    target_value: np.ndarray = field(default_factory=nothing)
    wanted: np.ndarray | None = None
    """The tokens whose scores are kept; absent: all of them."""


@dataclass(frozen=True)
class EncodedSet:
    """The rows of some examples, and how much of these did not fit."""

    examples: Sequence[Any]
    rows: Sequence[Row]
    num_tokens: int
    num_truncated: int
    notes: tuple[str, ...] = ()
    """What the user should know about it, in sentences."""

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def truncated_share(self) -> float:
        """Share of the tokens that did not fit."""
        return self.num_truncated / max(1, self.num_tokens)


@dataclass(frozen=True)
class ExampleBatches:
    """Batches of labelled rows as a pure function of the step."""

    rows: Sequence[Row]
    batch_size: int
    seed: int
    is_per_token: bool

    def micro_batches(self, step: int, *, count: int) -> list[Batch]:
        """The rows of a step, cut into at most `count` parts."""
        chosen = rows_of_step(step, num_rows=len(self.rows), batch_size=self.batch_size, seed=self.seed)
        return [
            batch_of([self.rows[row] for row in part], is_per_token=self.is_per_token)
            for part in np.array_split(chosen, count)
            if len(part)
        ]


def batch_of(rows: Sequence[Row], *, is_per_token: bool) -> Batch:
    """A flat batch of rows; a target's index is that of its token, or of its row, in the batch."""
    begins = np.cumsum([0, *(len(row.ids) for row in rows[:-1])]) if is_per_token else np.arange(len(rows))
    index = np.concatenate([row.target_index + begin for row, begin in zip(rows, begins, strict=True)])
    filled = [row.target_value for row in rows if len(row.target_value)]
    segments = [row.segments for row in rows if row.segments is not None]
    return flat_batch(
        [row.ids for row in rows],
        target_index=index,
        target_value=np.concatenate(filled) if filled else NOTHING,
        documents=[row.example for row in rows],
        segments=np.concatenate(segments) if len(segments) == len(rows) else None,
    )
