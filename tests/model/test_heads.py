"""Heads: what their scores mean."""

import torch

from headswap.batches.batch import flat_batch
from headswap.model.text_model import build_model
from tiny import random_sequences, tiny_model_shape

LENGTHS = [7, 1, 13, 4, 13]


@torch.no_grad()
def test_a_span_heads_columns_are_distributions_over_each_sequence() -> None:
    output = build_model(tiny_model_shape(head="span"), seed=5)(flat_batch(random_sequences(LENGTHS)))
    for part in output.exp().split(LENGTHS):
        torch.testing.assert_close(part.sum(dim=0), torch.ones(2))
