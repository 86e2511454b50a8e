"""The head that compares the vectors of two texts."""

import numpy as np
import pytest
import torch

from headswap.batches.batch import flat_batch, pad_batch
from headswap.batches.labelled_rows import Row, batch_of
from headswap.model.comparison_head import ComparisonHead
from headswap.model.parameter_count import num_parameters
from headswap.model.pooling import pool
from headswap.model.shape import HeadShape
from headswap.model.text_model import TextModel, build_model
from headswap.objectives.supervised import ClassificationObjective
from tiny import random_sequences, tiny_model_shape

pytestmark = pytest.mark.usefixtures("one_thread")
LENGTHS = [7, 2, 13, 4, 5, 9]


def comparing(pooling: str = "mean") -> TextModel:
    shape = tiny_model_shape(head="compare")
    return build_model(shape.changed(classifier=HeadShape(pooling=pooling, head_norm="layer")), seed=5).eval()


@pytest.mark.parametrize("pooling", ["mean", "mean+max"])
@torch.no_grad()
def test_the_class_layer_reads_both_vectors_their_difference_and_their_product(pooling: str) -> None:
    model, batch = comparing(pooling), flat_batch(random_sequences(LENGTHS))
    pooled = pool(model.hidden(batch), batch.lengths_B, model.shape.classifier.pooling)
    head = model.head
    assert isinstance(head, ComparisonHead)
    for row, scores in enumerate(model(batch)):
        u, v = ((one - one.mean()) / (one.var(correction=0) + 1e-5).sqrt() for one in pooled[2 * row : 2 * row + 2])
        read = torch.cat([u, v, (u - v).abs(), u * v]) / 2
        torch.testing.assert_close(scores, head.output.weight @ read + head.output.bias)
    width = 32 * len(pooling.split("+"))
    assert head.output.weight.shape == (3, 4 * width)
    assert num_parameters(head) == 3 * 4 * width + 3


@torch.no_grad()
def test_the_first_loss_is_that_of_a_guess_also_with_the_large_vectors_of_a_trained_base() -> None:
    model, batch = comparing(), flat_batch(random_sequences(LENGTHS), target_index=[0, 1, 2], target_value=[0, 1, 2])
    for tensor in (model.base.final_norm.weight, model.base.final_norm.bias):
        tensor.mul_(30)
    scores = model(batch)
    assert scores.abs().max() < 1
    assert ClassificationObjective().loss_sum(model, batch).item() / 3 == pytest.approx(np.log(3), abs=0.1)


@torch.no_grad()
def test_a_pair_in_the_other_order_has_other_scores() -> None:
    model, (first, second) = comparing(), random_sequences([6, 8])
    gap = (model(flat_batch([first, second])) - model(flat_batch([second, first]))).abs().max()
    assert gap > 1e-4


@pytest.mark.parametrize("padding", [1, 2, 3])
def test_padding_sequences_change_neither_losses_nor_gradients(padding: int) -> None:
    """Steps that are captured as a CUDA graph have padding sequences at the end, of which the last may be alone."""
    rows = [
        Row(number, np.concatenate((first, second)), target_index=np.zeros(1, dtype=np.int64),
            target_value=np.array([number]), split=len(first))
        for number, (first, second) in enumerate(zip(*[iter(random_sequences(LENGTHS))] * 2, strict=True))
    ]  # fmt: skip
    batch, objective, model = batch_of(rows, is_per_token=False), ClassificationObjective(), comparing().double()
    found = []
    for one in (batch, pad_batch(batch, num_tokens=50, num_sequences=6 + padding, num_targets=3)):
        model.zero_grad()
        loss = objective.loss_sum(model, one)
        loss.backward()
        found.append((loss.item(), [tensor.grad.clone() for tensor in model.parameters()]))  # type: ignore[union-attr]
    (loss, gradients), (padded_loss, padded_gradients) = found
    assert padded_loss == pytest.approx(loss, abs=1e-9)
    for one, other in zip(gradients, padded_gradients, strict=True):
        torch.testing.assert_close(one, other)
