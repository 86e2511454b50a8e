"""Objectives with labels, for fine-tuning; a task makes its own.

Each returns the *sum* of its losses over the batch's targets, like the objectives of pre-training. Class weights
average to one over the training set, so the sum of weighted losses is still divided by the number of targets.

Shapes: T targets, C classes, N tokens.
"""

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from headswap.batches.batch import Batch
from headswap.model.text_model import TextModel


class SupervisedObjective(Protocol):
    """Scores a model on labelled sequences."""

    def loss_sum(self, model: TextModel, batch: Batch) -> Tensor:
        """The loss summed over the batch's targets."""


class ClassificationObjective:
    """Cross entropy of one class per target. Targets are sequences (classify) or the first tokens of words (tag)."""

    def __init__(self, *, label_smoothing: float = 0.0, class_weights: Tensor | None = None) -> None:
        self.label_smoothing, self.class_weights = label_smoothing, class_weights

    def loss_sum(self, model: TextModel, batch: Batch) -> Tensor:
        """Cross entropy summed over the targets."""
        return self.loss_of(model(batch), batch)

    def loss_of(self, logits: Tensor, batch: Batch) -> Tensor:
        """The same from the logits of all sequences or tokens."""
        logits_TC = wide(logits[batch.target_index_T])
        self.class_weights = like_logits(logits_TC, self.class_weights)
        return F.cross_entropy(
            logits_TC, batch.target_value_T, reduction="sum", label_smoothing=self.label_smoothing,
            weight=self.class_weights,
        )  # fmt: skip


class MultiLabelObjective:
    """Binary cross entropy of each label separately. Targets are rows of zeros and ones, one row per sequence.

    The loss of a sequence is the mean over its labels, so that it does not grow with their number. Class weights are
    2 x C: the weights of absent and of present labels.
    """

    def __init__(self, *, label_smoothing: float = 0.0, class_weights: Tensor | None = None) -> None:
        self.label_smoothing, self.class_weights = label_smoothing, class_weights

    def loss_sum(self, model: TextModel, batch: Batch) -> Tensor:
        """Binary cross entropy, averaged over labels, summed over sequences."""
        logits_TC = wide(model(batch)[batch.target_index_T])
        present_TC = batch.target_value_T.to(logits_TC)
        weights_TC = None
        self.class_weights = like_logits(logits_TC, self.class_weights)
        if self.class_weights is not None:
            absent_C, present_C = self.class_weights
            weights_TC = torch.where(present_TC > 0, present_C, absent_C)
        smoothed_TC = present_TC * (1 - self.label_smoothing) + self.label_smoothing / 2
        loss_TC = F.binary_cross_entropy_with_logits(logits_TC, smoothed_TC, weight=weights_TC, reduction="none")
        return loss_TC.mean(dim=1).sum()


class RegressionObjective:
    """Squared error of one number per sequence. Values are standardised, so one learning rate suits any unit."""

    def loss_sum(self, model: TextModel, batch: Batch) -> Tensor:
        """Squared error summed over the sequences that have a target."""
        values_T = wide(model(batch)[batch.target_index_T]).squeeze(1)
        return (values_T - batch.target_value_T.to(values_T)).square().sum()


class SpanObjective:
    """Negative log-probability of the start and end of an answer. Two targets per sequence: (token, 0) for the start
    and (token, 1) for the end; in a sequence without the answer both are the first token."""

    def loss_sum(self, model: TextModel, batch: Batch) -> Tensor:
        """Negative log-probability summed over starts and ends, in nats."""
        log_probabilities_N2 = model(batch)
        return -log_probabilities_N2[batch.target_index_T, batch.target_value_T].sum()


def wide(logits: Tensor) -> Tensor:
    """The logits in at least float32, in which losses are summed."""
    return logits if logits.dtype.itemsize >= 4 else logits.float()


def like_logits(logits: Tensor, weights: Tensor | None) -> Tensor | None:
    """The weights with the device and dtype of the logits; the caller keeps them, so they are copied once."""
    return None if weights is None else weights.to(logits)
