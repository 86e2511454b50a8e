"""Objectives: what is predicted and how it is scored.

An objective makes a `Batch` from pieces of documents and returns the *sum* of its losses over the batch's targets; the
engine divides by the step's number of targets over all micro-batches and processes. It also decides the attention
direction and the head. Adding an objective is one class and one line in `PRETRAINING`.
"""

from collections.abc import Sequence
from typing import Literal, Protocol

import numpy as np
from torch import Tensor

from headswap.model.fused_loss import linear_cross_entropy_sum
from headswap.model.heads import LanguageModelHead
from headswap.model.text_model import Direction, TextModel
from headswap.text.batch import Batch, flat_batch
from headswap.text.windows import Piece

ObjectiveName = Literal["causal"]


class Objective(Protocol):
    """How a model is scored on a batch."""

    def loss_sum(self, model: TextModel, batch: Batch) -> Tensor:
        """The loss summed over the batch's targets."""


class PretrainingObjective(Objective, Protocol):
    """An objective that needs no labels: it makes its own targets."""

    name: ObjectiveName
    direction: Direction

    def make_batch(self, pieces: Sequence[Piece], stream: np.random.Generator) -> Batch:
        """Inputs and targets for a few pieces of documents."""


class CausalObjective:
    """Predict the next token from those before it. Needs: any text. Gives: a generator. Sees: the left context only."""

    name: ObjectiveName = "causal"
    direction: Direction = "causal"

    def make_batch(self, pieces: Sequence[Piece], stream: np.random.Generator) -> Batch:
        """Each piece's tokens in, the same tokens shifted by one out."""
        del stream  # nothing is drawn
        targets = np.concatenate([piece.stream[1:] for piece in pieces]).astype(np.int64)
        return flat_batch(
            [piece.stream[:-1] for piece in pieces],
            target_index=np.arange(len(targets)),
            target_value=targets,
            documents=[piece.document for piece in pieces],
        )

    def loss_sum(self, model: TextModel, batch: Batch) -> Tensor:
        """Cross entropy of every next token, through the fused head."""
        assert isinstance(model.head, LanguageModelHead)
        hidden_TD = model.hidden(batch)
        if batch.num_targets != batch.num_tokens:
            hidden_TD = hidden_TD[batch.target_index_T]
        weight_VD = model.head.projection(model.base.embedding.weight)
        return linear_cross_entropy_sum(hidden_TD, weight_VD, model.head.bias, batch.target_value_T)


PRETRAINING: dict[str, type[CausalObjective]] = {"causal": CausalObjective}
