"""Objectives: what is predicted and how it is scored.

An objective makes a `Batch` and returns the *sum* of its losses over the batch's targets; the training loop divides by
the step's number of targets over all micro-batches and processes. It also decides the attention direction and the head.
A new objective of pre-training is a class in a file of its own and one line in `OBJECTIVES` (registry.py). The
objectives of fine-tuning are in supervised.py.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast

import numpy as np
from torch import Tensor

from headswap.batches.batch import Batch
from headswap.batches.config import MaskingSettings
from headswap.batches.windows import Layout
from headswap.core.errors import InputError, listed
from headswap.core.random_streams import Draws
from headswap.kernels.chunked_loss import linear_cross_entropy_sum
from headswap.model.heads import LanguageModelHead
from headswap.model.shape import Direction
from headswap.model.text_model import TextModel
from headswap.registry import OBJECTIVES
from headswap.tokens.store import TokenStore
from headswap.tokens.tokenizer import Tokenizer


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
    masks_tokens: bool
    """Whether it reads the settings of masking and needs a tokenizer with `<mask>` and `<sep>`."""
    predicts_next: bool
    """Whether the vector of a token predicts the token after it, so that the base can generate text; otherwise it
    predicts the token itself."""

    def __init__(self, tokenizer: Tokenizer, masking: MaskingSettings) -> None: ...

    @classmethod
    def masking_of(cls, masking: MaskingSettings) -> MaskingSettings:
        """The settings of masking with the defaults of this objective."""

    def rows(self, store: TokenStore, documents: np.ndarray, *, max_length: int, layout: Layout) -> RowSource:
        """The rows of some documents."""

    def make_batch(self, pieces: Any, draws: Draws) -> Batch:
        """Inputs and targets from the contents of some rows."""

    def score_sums(self, model: TextModel, batch: Batch) -> Mapping[str, ScoreSums]:
        """The scores reported on held-out text, by name."""

    def held_out_parts(self) -> "Mapping[str, Part]":
        """What is scored on held-out text, by the prefix of its scores: itself, or each of its parts."""


class Part(NamedTuple):
    """A part of an objective, and its weight in the held-out loss."""

    objective: PretrainingObjective
    weight: float


class TokenObjective:
    """What the objectives with one loss per predicted token share."""

    losses: tuple[str, ...] = ("loss",)
    num_segments = 0

    @classmethod
    def masking_of(cls, masking: MaskingSettings) -> MaskingSettings:
        """Tokens are masked one by one unless another unit is given."""
        return masking.with_defaults(mask_unit="token")

    def held_out_parts(self) -> Mapping[str, Part]:
        """The objective itself."""
        return {"": Part(cast(PretrainingObjective, self), 1.0)}  # the classes derived from this one are objectives

    def loss_sum(self, model: TextModel, batch: Batch) -> Tensor:
        """Cross entropy summed over the tokens that have a target."""
        return token_loss_sum(model, model.hidden(batch), batch)

    def score_sums(self, model: TextModel, batch: Batch) -> Mapping[str, ScoreSums]:
        """The summed loss and its number of targets."""
        return {"loss": ScoreSums(self.loss_sum(model, batch).item(), batch.num_targets)}


def make_objective(name: str, tokenizer: Tokenizer, masking: MaskingSettings) -> PretrainingObjective:
    """The pre-training objective of this name."""
    if name not in OBJECTIVES:
        raise InputError(f"The objective '{name}' is unknown. Known are {listed(OBJECTIVES)}.")
    kind = OBJECTIVES.load(name)
    return kind(tokenizer, kind.masking_of(masking))


def token_loss_sum(model: TextModel, hidden_ND: Tensor, batch: Batch) -> Tensor:
    """Cross entropy of the tokens that have a target, by the fused head and loss."""
    assert isinstance(model.head, LanguageModelHead)
    hidden_TD = hidden_ND if batch.has_all_targets else hidden_ND[batch.target_index_T]
    hidden_TD = model.head.transform(hidden_TD)
    weight_VD = model.head.projection(model.base.embedding.weight)
    return linear_cross_entropy_sum(hidden_TD, weight_VD, model.head.bias, batch.target_value_T, batch.counts_T)
