"""Objectives with labels: what a fine-tuned head is taught, one class a task and one line in `SUPERVISED`.

Each returns the *sum* of its losses over the batch's targets, as those of pre-training do. Weights of classes average
to one over the training set, so a sum of weighted losses may still be divided by the number of targets.

Shapes: T targets, C classes, N tokens.
"""

from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from headswap.batches.batch import Batch
from headswap.model.text_model import TextModel


class SupervisedObjective(Protocol):
    """How a model is scored on labelled sequences."""

    def loss_sum(self, model: TextModel, batch: Batch) -> Tensor:
        """The loss summed over the batch's targets."""


class ClassificationObjective:
    """One class a target, by cross entropy. Needs: a class number a sequence, or a token. Compare with: multi-label."""

    def __init__(self, *, label_smoothing: float = 0.0, class_weights: Tensor | None = None) -> None:
        self.label_smoothing, self.class_weights = label_smoothing, class_weights

    def loss_sum(self, model: TextModel, batch: Batch) -> Tensor:
        """Cross entropy of the targeted rows."""
        logits_TC = wide(model(batch)[batch.target_index_T])
        self.class_weights = beside(logits_TC, self.class_weights)
        return F.cross_entropy(
            logits_TC, batch.target_value_T, reduction="sum", label_smoothing=self.label_smoothing,
            weight=self.class_weights,
        )  # fmt: skip


class TaggingObjective(ClassificationObjective):
    """One class a word, read at its first piece: the same cross entropy, the targets are tokens."""


class MultiLabelObjective:
    """Each label on its own, by binary cross entropy. Needs: a row of zeros and ones a sequence.

    The mean over the labels is one target's loss, so that its size does not grow with their number. Class weights are
    2 x C: what an absent and a present label weigh.
    """

    def __init__(self, *, label_smoothing: float = 0.0, class_weights: Tensor | None = None) -> None:
        self.label_smoothing, self.class_weights = label_smoothing, class_weights

    def loss_sum(self, model: TextModel, batch: Batch) -> Tensor:
        """Binary cross entropy, averaged over labels, summed over sequences."""
        logits_TC = wide(model(batch)[batch.target_index_T])
        present_TC = batch.target_value_T.to(logits_TC)
        weights_TC = None
        self.class_weights = beside(logits_TC, self.class_weights)
        if self.class_weights is not None:
            absent_C, here_C = self.class_weights
            weights_TC = torch.where(present_TC > 0, here_C, absent_C)
        wanted_TC = present_TC * (1 - self.label_smoothing) + self.label_smoothing / 2
        loss_TC = F.binary_cross_entropy_with_logits(logits_TC, wanted_TC, weight=weights_TC, reduction="none")
        return loss_TC.mean(dim=1).sum()


class RegressionObjective:
    """One number a sequence, by squared error. Needs: standardised values, so that rates fit targets of any unit."""

    def loss_sum(self, model: TextModel, batch: Batch) -> Tensor:
        """Squared errors of the targeted sequences."""
        values_T = wide(model(batch)[batch.target_index_T]).squeeze(1)
        return (values_T - batch.target_value_T.to(values_T)).square().sum()


class SpanObjective:
    """Where an answer begins and ends. Needs: two targets a sequence, (token, 0) for the start and (token, 1) for the
    end; a sequence without the answer has its first token for both."""

    def loss_sum(self, model: TextModel, batch: Batch) -> Tensor:
        """What the starts and ends cost, in nats."""
        log_probabilities_N2 = model(batch)
        return -log_probabilities_N2[batch.target_index_T, batch.target_value_T].sum()


def wide(logits: Tensor) -> Tensor:
    """At least float32: a loss is not summed in fewer bits."""
    return logits if logits.dtype.itemsize >= 4 else logits.float()


def beside(logits: Tensor, weights: Tensor | None) -> Tensor | None:
    """The weights where the logits are; kept there, they travel once."""
    return None if weights is None else weights.to(logits)


SUPERVISED: dict[str, type] = {
    "classify": ClassificationObjective,
    "multilabel": MultiLabelObjective,
    "regress": RegressionObjective,
    "tag": TaggingObjective,
    "span": SpanObjective,
}
