"""Labelled rows: sequences with their targets, and batches of them as a pure function of the step.

A text, a pair or a sentence is one row; a long text may be several rows, one per window. Tasks make the rows (tasks/);
training and evaluation read them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from headswap.batches.batch import Batch, flat_batch
from headswap.batches.order import rows_of_step
from headswap.core.errors import counted

NOTHING = np.zeros(0, dtype=np.int64)


def nothing() -> np.ndarray:
    """An empty array, the default of `Row`."""
    return NOTHING


@dataclass(frozen=True)
class Row:
    """One sequence of a batch, or two of a pair: token ids, and targets as (position in the row, value)."""

    example: int
    """Index of the example that the row comes from."""
    ids: np.ndarray
    segments: np.ndarray | None = None
    """0 or 1 per token, if the base has segment embeddings."""
    target_index: np.ndarray = field(default_factory=nothing)
    """Positions of the tokens that have a target; [0] if the row has one target as a whole."""
    target_value: np.ndarray = field(default_factory=nothing)
    wanted: np.ndarray | None = None
    """Positions of the tokens whose scores are kept; None: all of them."""
    split: int = 0
    """Where the second sequence of the row begins, if a pair of texts is read as two sequences; 0: there is one."""

    @property
    def sequences(self) -> list[np.ndarray]:
        """The token ids of each of its sequences."""
        return np.split(self.ids, [self.split]) if self.split else [self.ids]


class Note(NamedTuple):
    """A remark about a set of examples: how many of something there are, and what about them."""

    number: int
    noun: str
    remark: str

    def __str__(self) -> str:
        return f"{counted(self.number, self.noun)} {self.remark}"


@dataclass(frozen=True)
class EncodedSet:
    """The rows of some examples, and how many of their tokens were cut off."""

    examples: Sequence[Any]
    rows: Sequence[Row]
    num_tokens: int
    num_truncated: int
    notes: tuple[Note, ...] = ()
    """Remarks for the user about this set."""

    def __len__(self) -> int:
        return len(self.examples)

    @property
    def truncated_share(self) -> float:
        """Share of the tokens that were cut off."""
        return self.num_truncated / max(1, self.num_tokens)


class RowChange(Protocol):
    """Changes the inputs of a row in a training step, such as token dropout."""

    def __call__(self, row: Row, *, number: int, step: int) -> Row:
        """Row `number` as it is read in a step."""


@dataclass(frozen=True)
class ExampleBatches:
    """Batches of labelled rows as a pure function of the step."""

    rows: Sequence[Row]
    batch_size: int
    seed: int
    is_per_token: bool
    change: RowChange | None = None

    def micro_batches(self, step: int, *, count: int) -> list[Batch]:
        """The rows of a step, divided into at most `count` micro-batches."""
        return [
            batch_of([self.row(number, step) for number in part], is_per_token=self.is_per_token)
            for part in np.array_split(self.numbers(step), count)
            if len(part)
        ]

    def numbers(self, step: int) -> np.ndarray:
        """Which rows a step reads."""
        return rows_of_step(step, num_rows=len(self.rows), batch_size=self.batch_size, seed=self.seed)

    def row(self, number: int, step: int) -> Row:
        """A row as it is read in a step."""
        row = self.rows[number]
        return row if self.change is None else self.change(row, number=int(number), step=step)


def batch_of(rows: Sequence[Row], *, is_per_token: bool) -> Batch:
    """A flat batch of rows; a target's index is that of its token in the batch, or that of its row.

    The tokens of a row are next to each other, also where it has two sequences.
    """
    begins = np.cumsum([0, *(len(row.ids) for row in rows[:-1])]) if is_per_token else np.arange(len(rows))
    index = np.concatenate([row.target_index + begin for row, begin in zip(rows, begins, strict=True)])
    values = [row.target_value for row in rows if len(row.target_value)]
    segments = [row.segments for row in rows if row.segments is not None]
    return flat_batch(
        [sequence for row in rows for sequence in row.sequences],
        target_index=index,
        target_value=np.concatenate(values) if values else NOTHING,
        documents=[row.example for row in rows],
        segments=np.concatenate(segments) if len(segments) == len(rows) else None,
    )
