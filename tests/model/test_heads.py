"""Heads: what their scores mean."""

import torch

from headswap.batches.batch import flat_batch
from headswap.model.heads import ClassificationHead
from headswap.model.pooling import pool
from headswap.model.text_model import build_model
from tiny import random_sequences, tiny_model_shape

LENGTHS = [7, 1, 13, 4, 13]


@torch.no_grad()
def test_a_span_heads_columns_are_distributions_over_each_sequence() -> None:
    output = build_model(tiny_model_shape(head="span"), seed=5)(flat_batch(random_sequences(LENGTHS)))
    for part in output.exp().split(LENGTHS):
        torch.testing.assert_close(part.sum(dim=0), torch.ones(2))


@torch.no_grad()
def test_a_normalised_head_reads_vectors_of_mean_0_and_variance_1_whatever_their_scale() -> None:
    shape = tiny_model_shape(head="classify")
    model = build_model(shape.changed(classifier=shape.classifier.changed(head_norm="layer")), seed=5).double().eval()
    batch = flat_batch(random_sequences(LENGTHS))
    vectors = pool(model.hidden(batch), batch.lengths_B, "mean")
    normalised = (vectors - vectors.mean(dim=1, keepdim=True)) / (vectors.var(dim=1, keepdim=True, correction=0)).sqrt()
    head = model.head
    assert isinstance(head, ClassificationHead)
    torch.testing.assert_close(model(batch), head.output(normalised), atol=1e-3, rtol=0)
    torch.testing.assert_close(head.read(1_000 * vectors), head.read(10 * vectors), atol=1e-3, rtol=0)


@torch.no_grad()
def test_a_cosine_head_scores_sixteen_cosines_and_ignores_the_length_of_both_vectors() -> None:
    shape = tiny_model_shape(head="classify")
    shape = shape.changed(classifier=shape.classifier.changed(head_similarity="cosine"))
    model, batch = build_model(shape, seed=5).double(), flat_batch(random_sequences(LENGTHS))
    model.head.output.bias.copy_(torch.tensor([0.1, 0.0, -0.2]))  # type: ignore[union-attr]
    vectors = pool(model.hidden(batch), batch.lengths_B, "mean")
    weight = model.head.output.weight  # type: ignore[union-attr]
    cosines = torch.stack([torch.cosine_similarity(vectors, row, dim=1) for row in weight], dim=1)
    scores = model(batch)
    torch.testing.assert_close(scores, 16 * (cosines + torch.tensor([0.1, 0.0, -0.2])))
    weight.mul_(torch.tensor([[0.01], [3.0], [50.0]]))
    torch.testing.assert_close(model(batch), scores)
    torch.testing.assert_close(model.head.score(7 * vectors), scores)  # type: ignore[union-attr, operator]
