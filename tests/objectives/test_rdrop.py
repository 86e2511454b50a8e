"""R-Drop: its loss and gradients are those of its formula."""

import math

import numpy as np
import pytest
import torch

from headswap.batches.batch import Batch, flat_batch
from headswap.model.text_model import TextModel, build_model
from headswap.objectives.rdrop import RDropObjective, symmetric_divergence
from headswap.objectives.supervised import ClassificationObjective
from tiny import random_sequences, tiny_model_shape

pytestmark = pytest.mark.usefixtures("one_thread")
LENGTHS = [5, 12, 3, 7]


def model(*, dropout: float) -> TextModel:
    return build_model(tiny_model_shape(head="classify", dropout=dropout), seed=3).double().train()


def batch() -> Batch:
    return flat_batch(random_sequences(LENGTHS), target_index=np.arange(4), target_value=np.array([0, 2, 1, 2]))


def gradients_of(trained: TextModel, loss: torch.Tensor) -> torch.Tensor:
    found = torch.autograd.grad(loss, list(trained.parameters()), allow_unused=True)
    return torch.cat([one.flatten() for one in found if one is not None])


def test_loss_and_gradients_are_those_of_the_formula() -> None:
    trained, given, alpha = model(dropout=0.3), batch(), 1.7
    torch.manual_seed(11)
    loss = RDropObjective(ClassificationObjective(), alpha=alpha).loss_sum(trained, given)
    found = gradients_of(trained, loss)
    torch.manual_seed(11)
    p, q = (torch.softmax(trained(given), dim=1) for _ in range(2))
    assert not torch.equal(p, q), "dropout draws other numbers in the second pass"
    expected = torch.zeros((), dtype=torch.float64)
    for row, target in enumerate(given.target_value_T.tolist()):
        expected = expected - (p[row, target].log() + q[row, target].log()) / 2
        forward = sum(p[row, label] * (p[row, label] / q[row, label]).log() for label in range(3))
        backward = sum(q[row, label] * (q[row, label] / p[row, label]).log() for label in range(3))
        expected = expected + alpha * (forward + backward) / 2
    torch.testing.assert_close(loss, expected, rtol=1e-10, atol=0)
    torch.testing.assert_close(found, gradients_of(trained, expected), rtol=1e-7, atol=1e-10)
    torch.manual_seed(11)
    without = gradients_of(trained, RDropObjective(ClassificationObjective(), alpha=0.0).loss_sum(trained, given))
    assert (found - without).norm() > 0.01 * without.norm(), "the divergence changes the gradient"


def test_without_dropout_it_is_the_cross_entropy() -> None:
    trained, given = model(dropout=0.0), batch()
    plain = ClassificationObjective().loss_sum(trained, given)
    torch.testing.assert_close(RDropObjective(ClassificationObjective(), alpha=5.0).loss_sum(trained, given), plain)


def test_a_divergence_that_is_not_finite_shows_in_the_sum() -> None:
    logits = torch.tensor([[0.0, math.nan]])
    assert symmetric_divergence(logits, torch.zeros(1, 2)).isnan()
