"""Objectives: what is predicted and how it is scored.

An objective makes a `Batch` and returns the *sum* of its losses over the batch's targets; the training loop divides by
the step's number of targets over all micro-batches and processes. It also decides the attention direction and the head.
registry.py lists the objectives of pre-training, supervised.py those of fine-tuning.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from headswap.batches.batch import Batch
from headswap.batches.windows import Layout
from headswap.core.random_streams import Draws
from headswap.kernels.chunked_loss import linear_cross_entropy_sum
from headswap.model.heads import LanguageModelHead
from headswap.model.shape import Direction
from headswap.model.text_model import TextModel
from headswap.tokens.store import TokenStore


class Objective(Protocol):
    """Scores a model on a batch."""

    def loss_sum(self, model: TextModel, batch: Batch) -> Tensor:
        """The loss summed over the batch's targets; one sum per entry of the batch's `target_counts`."""


@dataclass(frozen=True, slots=True)
class ScoreSums:
    """A sum over a batch and its divisor; both are added up over batches before dividing."""

    total: float
    count: int


class RowSource(Protocol):
    """Rows of a corpus; a row is computed when it is requested."""

    store: TokenStore
    max_length: int
    num_tokens: int
    num_truncated: int
    documents: np.ndarray

    def __len__(self) -> int: ...

    def pieces_of(self, rows: Sequence[int] | np.ndarray, draws: Draws) -> Any:
        """The contents of some rows, in their order."""


class PretrainingObjective(Objective, Protocol):
    """An objective without labels: the targets are made from the text."""

    direction: Direction
    losses: tuple[str, ...]
    """Names of its losses, in the order of their sums."""
    sides: tuple[str, ...]
    """Side arrays of the token store that it needs."""
    num_segments: int
    """Number of segment embeddings that it needs."""
    is_likelihood: bool
    """Whether every token is predicted exactly once, so that the loss gives bits per byte."""

    def rows(self, store: TokenStore, documents: np.ndarray, *, max_length: int, layout: Layout) -> RowSource:
        """The rows of some documents."""

    def make_batch(self, pieces: Any, draws: Draws) -> Batch:
        """Inputs and targets from the contents of some rows."""

    def score_sums(self, model: TextModel, batch: Batch) -> Mapping[str, ScoreSums]:
        """The scores reported on held-out text, by name."""


def token_loss_sum(model: TextModel, hidden_ND: Tensor, batch: Batch) -> Tensor:
    """Cross entropy of the tokens that have a target, by the fused head and loss."""
    assert isinstance(model.head, LanguageModelHead)
    hidden_TD = hidden_ND if batch.has_all_targets else hidden_ND[batch.target_index_T]
    weight_VD = model.head.projection(model.base.embedding.weight)
    return linear_cross_entropy_sum(hidden_TD, weight_VD, model.head.bias, batch.target_value_T, batch.counts_T)
