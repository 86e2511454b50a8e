"""Batches that are filled up for recorded steps; the recordings themselves are tested on a GPU (test_gpu.py)."""

import numpy as np
import pytest
import torch

from headswap.model.supervised import ClassificationObjective
from headswap.model.text_model import build_model
from headswap.text.batch import Batch, filled_up, flat_batch
from headswap.training.config import MachineSettings
from headswap.training.machine import Machine
from headswap.training.recorded import can_record, sizes_of
from tiny import random_sequences, tiny_batch, tiny_model_shape, tiny_objective

LENGTHS = [9, 30, 2, 22]


def batch_of(kind: str) -> Batch:
    sequences = random_sequences(LENGTHS)
    if kind != "classify":
        return tiny_batch(kind, sequences)
    return flat_batch(sequences, target_index=np.arange(4), target_value=np.array([0, 1, 2, 0]))


@pytest.mark.parametrize(
    ("kind", "pooling"),
    [("causal", "mean"), ("masked", "mean"), *(("classify", one) for one in ("mean", "max", "last"))],
)
def test_what_fills_a_batch_up_changes_no_loss_and_no_gradient(kind: str, pooling: str) -> None:
    objective = ClassificationObjective() if kind == "classify" else tiny_objective(kind)
    shape = tiny_model_shape(
        head="classify" if kind == "classify" else "lm", direction=getattr(objective, "direction", "causal"),
        pooling=pooling, max_position_embeddings=64,
    )  # fmt: skip
    model = build_model(shape, seed=1).double()
    batch = batch_of(kind)
    sizes = sizes_of(batch, model)
    full = filled_up(batch, **sizes._asdict())
    assert (full.num_tokens, len(full.lengths_B), full.num_targets) == sizes
    found = []
    for one in (batch, full):
        model.zero_grad()
        loss = objective.loss_sum(model, one)
        loss.backward()
        found.append([loss.detach(), *(tensor.grad for tensor in model.parameters() if tensor.grad is not None)])
    for plain, filled in zip(*found, strict=True):
        torch.testing.assert_close(filled, plain, atol=1e-9, rtol=1e-9)


def test_few_sizes_serve_many_batches_and_none_has_an_empty_sequence_that_is_pooled() -> None:
    model = build_model(tiny_model_shape(head="classify", max_position_embeddings=64), seed=1)
    rng, seen = np.random.default_rng(0), set()
    for _ in range(200):
        batch = flat_batch(
            random_sequences(rng.integers(1, 60, 4).tolist()), target_index=np.arange(4), target_value=np.zeros(4, int)
        )
        sizes = sizes_of(batch, model)
        assert min(filled_up(batch, **sizes._asdict()).lengths_B.tolist()) > 0
        assert sizes.num_tokens - batch.num_tokens <= 64, "the filling is a sequence that the base can read"
        seen.add(sizes)
    assert len(seen) <= 4


def test_a_cpu_records_nothing() -> None:
    model = build_model(tiny_model_shape(), seed=1)
    assert not can_record(model, Machine(MachineSettings(device="cpu")), num_micro=1)
