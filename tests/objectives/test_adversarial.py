"""Adversarial training: its loss and gradients are those of its formula, for labelled and unlabelled texts."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from headswap.batches.batch import Batch, flat_batch, pad_batch
from headswap.model.text_model import TextModel, build_model
from headswap.objectives.adversarial import AdversarialObjective, worst_noise
from headswap.objectives.consistency import ConsistencyObjective
from headswap.objectives.objective import Objective
from headswap.objectives.supervised import ClassificationObjective
from tiny import random_sequences, tiny_model_shape

pytestmark = pytest.mark.usefixtures("one_thread")
LENGTHS, EPSILON = [5, 12, 3, 7], 0.2


def model() -> TextModel:
    return build_model(tiny_model_shape(head="classify"), seed=3).double().train()


def batch() -> Batch:
    return flat_batch(random_sequences(LENGTHS), target_index=np.arange(4), target_value=np.array([0, 2, 1, 2]))


def with_views() -> Batch:
    """Two labelled texts, and one pair of views."""
    both = flat_batch(random_sequences(LENGTHS), target_index=np.arange(2), target_value=np.array([0, 2]))
    return replace(both, views_2P=torch.tensor([[2], [3]]), view_weights_P=torch.ones(1))


def gradients_of(trained: TextModel, loss: torch.Tensor) -> torch.Tensor:
    found = torch.autograd.grad(loss, list(trained.parameters()), retain_graph=True, allow_unused=True)
    return torch.cat([one.flatten() for one in found if one is not None])


def loss_with_noise(trained: TextModel, objective: Objective, given: Batch, noise: torch.Tensor) -> torch.Tensor:
    """The loss with something added to what the embedding returns, without the code under test."""
    handle = trained.base.embedding.register_forward_hook(lambda _module, _inputs, output: output + noise)
    try:
        return objective.loss_sum(trained, given).sum()
    finally:
        handle.remove()


@pytest.mark.parametrize("kind", ["labelled", "with unlabelled texts"])
def test_loss_and_gradients_are_those_of_the_formula(kind: str) -> None:
    trained, inner = model(), ClassificationObjective()
    objective: Objective = inner if kind == "labelled" else ConsistencyObjective(inner, threshold=0.0, temperature=1.0)
    given = batch() if kind == "labelled" else with_views()
    loss = AdversarialObjective(objective, epsilon=EPSILON).loss_sum(trained, given).sum()
    found = gradients_of(trained, loss)
    noise = torch.zeros(sum(LENGTHS), 32, dtype=torch.float64, requires_grad=True)
    clean = loss_with_noise(trained, objective, given, noise)
    (steepest,) = torch.autograd.grad(clean, noise, retain_graph=True)
    embedded = trained.base.embedding.weight[given.ids_N].detach()
    moves = [
        EPSILON * vectors.norm() * direction / (direction.norm() or 1.0)
        for vectors, direction in zip(embedded.split(LENGTHS), steepest.split(LENGTHS), strict=True)
    ]
    moved = loss_with_noise(trained, objective, given, torch.cat(moves))
    torch.testing.assert_close(loss, (clean + moved) / 2, rtol=1e-10, atol=0)
    torch.testing.assert_close(found, gradients_of(trained, (clean + moved) / 2), rtol=1e-7, atol=1e-10)
    assert moved > clean, "the loss grows in this direction"
    assert (found - gradients_of(trained, clean)).norm() > 0.01 * found.norm(), "the second pass changes the gradient"
    if kind != "labelled":
        assert moves[2].count_nonzero() == 0, "an unchanged text is a target and stays where it is"
        assert moves[3].count_nonzero() > 0


def test_micro_batches_and_padding_do_not_change_the_sum() -> None:
    trained, whole = model(), batch()
    objective = AdversarialObjective(ClassificationObjective(), epsilon=EPSILON)
    expected = objective.loss_sum(trained, whole)
    sequences = random_sequences(LENGTHS)
    parts = [
        flat_batch(sequences[rows], target_index=np.arange(2), target_value=np.array([0, 2, 1, 2])[rows])
        for rows in (slice(0, 2), slice(2, 4))
    ]
    torch.testing.assert_close(sum(objective.loss_sum(trained, part) for part in parts), expected)
    padded = pad_batch(whole, num_tokens=whole.num_tokens + 20, num_sequences=7, num_targets=4)
    torch.testing.assert_close(objective.loss_sum(trained, padded), expected)
    assert objective.loss_sum(trained, whole.without_targets()) == 0


def test_tiny_gradients_never_move_further_than_epsilon_and_nan_is_not_hidden() -> None:
    embedded, lengths = torch.ones(4, 9), torch.tensor([1, 1, 2])
    gradient = torch.zeros(4, 9)
    gradient[0, 0], gradient[1, 0], gradient[2, 0] = 1e-30, 1e-13, math.nan
    found = worst_noise(gradient, embedded, lengths, epsilon=0.5)
    assert found[:2].abs().max() <= 0.5 * 3
    assert found[:2].isfinite().all()
    assert found[2].isnan().any()
