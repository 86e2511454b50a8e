"""Adversarial training on embeddings (Miyato et al. 2017): the loss is also small for the worst nearby embeddings.

The gradient of the loss with respect to the token embeddings is the direction in which the loss grows fastest. In a
second pass every sequence is moved in its own direction by `epsilon` times the norm of its embeddings. The result is
the mean of both losses; the direction itself is a constant for the optimizer.

It works for any objective. The target of consistency training has no gradient, so there only the changed views of
unlabelled texts are moved: their predictions are compared with those for the unchanged texts, which is virtual
adversarial training. A sequence depends on its own gradient only, so micro-batches and processes do not change the sum.

Shapes: N tokens, D hidden width, B sequences.
"""

from dataclasses import replace

import torch
from torch import Tensor

from headswap.batches.batch import Batch
from headswap.model.text_model import TextModel
from headswap.objectives.objective import Objective

LEAST_NORM = 1e-12
"""A sequence with a smaller gradient is moved by less than `epsilon`; one without a gradient stays where it is."""


class AdversarialObjective:
    """The mean of the losses of an objective at the embeddings and at the worst embeddings near them."""

    def __init__(self, inner: Objective, *, epsilon: float) -> None:
        self.inner, self.epsilon = inner, epsilon

    def loss_sum(self, model: TextModel, batch: Batch) -> Tensor:
        """The sums of the inner objective, each averaged over both passes."""
        embedded_ND = model.base.embedding(batch.ids_N).detach()
        noise_ND = torch.zeros_like(embedded_ND, requires_grad=True)
        clean = self.inner.loss_sum(model, replace(batch, noise_ND=noise_ND))
        (gradient_ND,) = torch.autograd.grad(clean.sum(), noise_ND, retain_graph=True)
        worst_ND = worst_noise(gradient_ND, embedded_ND, batch.lengths_B, epsilon=self.epsilon)
        moved = self.inner.loss_sum(model, replace(batch, noise_ND=worst_ND))
        return (clean + moved) / 2


def worst_noise(gradient_ND: Tensor, embedded_ND: Tensor, lengths_B: Tensor, *, epsilon: float) -> Tensor:
    """Per sequence: the direction of the gradient, with `epsilon` times the norm of the sequence's embeddings."""
    factor_B = epsilon * _norms(embedded_ND, lengths_B) / _norms(gradient_ND, lengths_B).clamp(min=LEAST_NORM)
    return gradient_ND * torch.repeat_interleave(factor_B, lengths_B, output_size=len(gradient_ND)).unsqueeze(1)


def _norms(vectors_ND: Tensor, lengths_B: Tensor) -> Tensor:
    """The norm of all vectors of a sequence together, B."""
    squares_N1 = vectors_ND.square().sum(dim=1, keepdim=True)
    # unsafe=True skips a check of the lengths that would make the host wait.
    return torch.segment_reduce(squares_N1, "sum", lengths=lengths_B, unsafe=True).squeeze(1).sqrt()
