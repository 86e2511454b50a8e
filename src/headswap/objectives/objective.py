"""Objectives: what is predicted and how it is scored.

An objective makes a `Batch` and returns the *sum* of its losses over the batch's targets; the engine divides by the
step's number of targets over all micro-batches and processes. It also decides the attention direction and the head.
The objectives that see both directions are in masked.py, the table of those that need no labels in pretraining.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from headswap.batches.batch import Batch
from headswap.batches.windows import Layout
from headswap.core.random_streams import Draws
from headswap.kernels.fused_loss import linear_cross_entropy_sum
from headswap.model.heads import LanguageModelHead
from headswap.model.shape import Direction
from headswap.model.text_model import TextModel
from headswap.tokens.store import TokenStore


class Objective(Protocol):
    """How a model is scored on a batch."""

    def loss_sum(self, model: TextModel, batch: Batch) -> Tensor:
        """The loss summed over the batch's targets; one sum for each of the batch's `target_counts`."""


@dataclass(frozen=True, slots=True)
class ScoreSums:
    """A sum over a batch and what it is divided by in the end: never a mean of means."""

    total: float
    count: int


class RowSource(Protocol):
    """Rows of a corpus, each computed when it is asked for."""

    max_length: int
    num_tokens: int
    num_truncated: int
    documents: np.ndarray

    def __len__(self) -> int: ...

    def pieces_of(self, rows: Sequence[int] | np.ndarray, draws: Draws) -> Any:
        """What stands in some rows, in their order."""


class PretrainingObjective(Objective, Protocol):
    """An objective that needs no labels: it makes its own targets."""

    direction: Direction
    losses: tuple[str, ...]
    """Names of its losses, in the order of their sums."""
    sides: tuple[str, ...]
    """Side arrays of the token store that it reads."""
    num_segments: int
    """Segment embeddings that it needs."""
    is_likelihood: bool
    """Whether every token is predicted once, so that bits a byte can be told."""

    def rows(self, store: TokenStore, documents: np.ndarray, *, max_length: int, layout: Layout) -> RowSource:
        """The rows of some documents."""

    def make_batch(self, pieces: Any, draws: Draws) -> Batch:
        """Inputs and targets for what stands in some rows."""

    def score_sums(self, model: TextModel, batch: Batch) -> Mapping[str, ScoreSums]:
        """What is reported of held-out text, by name."""


def token_loss_sum(model: TextModel, hidden_ND: Tensor, batch: Batch) -> Tensor:
    """Cross entropy of the targeted tokens alone, through the fused head."""
    assert isinstance(model.head, LanguageModelHead)
    hidden_TD = hidden_ND if batch.has_all_targets else hidden_ND[batch.target_index_T]
    weight_VD = model.head.projection(model.base.embedding.weight)
    return linear_cross_entropy_sum(hidden_TD, weight_VD, model.head.bias, batch.target_value_T, batch.counts_T)
