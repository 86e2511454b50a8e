"""Consistency training: the predictions for a text and for a changed view of it should agree (UDA, Xie et al. 2020).

The prediction for the unchanged text is the target, without gradient and sharpened by a temperature. Texts whose most
probable class is below a threshold do not count. Every term depends on one text only, so micro-batches and processes
do not change the sum.

Shapes: B sequences, P pairs of views, C classes.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from headswap.batches.batch import Batch
from headswap.model.text_model import TextModel
from headswap.objectives.supervised import ClassificationObjective, wide


class ConsistencyObjective:
    """Cross entropy of the labelled rows, and the divergence of the two views of the unlabelled ones."""

    losses = ("loss", "consistency_loss")

    def __init__(self, labelled: ClassificationObjective, *, threshold: float, temperature: float) -> None:
        self.labelled, self.threshold, self.temperature = labelled, threshold, temperature

    def loss_sum(self, model: TextModel, batch: Batch) -> Tensor:
        """Two sums, over targets and over pairs of views; the training loop divides each by its number."""
        assert batch.views_2P is not None
        assert batch.view_weights_P is not None
        logits_BC = wide(model(batch))
        original_P, changed_P = batch.views_2P
        target_PC = logits_BC[original_P].detach()
        is_sure_P = target_PC.softmax(dim=1).amax(dim=1) >= self.threshold
        weights_P = batch.view_weights_P.to(logits_BC) * is_sure_P
        divergence_P = F.kl_div(
            logits_BC[changed_P].log_softmax(dim=1),
            (target_PC / self.temperature).log_softmax(dim=1),
            reduction="none",
            log_target=True,
        ).sum(dim=1)
        return torch.stack((self.labelled.loss_of(logits_BC, batch), (divergence_P * weights_P).sum()))
