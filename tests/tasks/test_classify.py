"""Classification: weights of the classes."""

import math

import numpy as np
import pytest
import torch

from headswap.batches.batch import flat_batch
from headswap.model.text_model import build_model
from headswap.objectives.supervised import ClassificationObjective
from headswap.tasks.classify import balanced_weights
from tiny import random_sequences, tiny_model_shape


@torch.no_grad()
def test_balanced_weights_average_to_one_and_keep_the_scale_of_the_loss() -> None:
    """The 5 targets: two of class 0, two of class 1, one of class 2."""
    model, targets = build_model(tiny_model_shape(head="classify"), seed=5), np.arange(5) % 3
    weights = balanced_weights(targets, 3)
    torch.testing.assert_close(weights, torch.tensor([5 / 6, 5 / 6, 5 / 3]))
    batch = flat_batch(random_sequences([7, 1, 13, 4, 13]), target_index=np.arange(5), target_value=targets)
    losses = torch.nn.functional.cross_entropy(model(batch), batch.target_value_T, reduction="none")
    weighted = ClassificationObjective(class_weights=weights).loss_sum(model, batch)
    torch.testing.assert_close(weighted, (losses * weights[batch.target_value_T]).sum())
    assert weighted.item() / 5 == pytest.approx(math.log(3), abs=0.1)
