"""The contract that every preset, direction and head keeps."""

import itertools
import math

import numpy as np
import pytest
import torch

from headswap.model.config import PRESETS
from headswap.model.heads import pool
from headswap.model.objectives import ClassificationObjective
from headswap.model.pretraining import PRETRAINING
from headswap.model.text_model import ModelShape, TextModel, build_model
from headswap.text.batch import Batch, flat_batch
from tiny import random_sequences, tiny_batch, tiny_model_shape, tiny_objective

POOLINGS = ("last", "mean", "first", "max", "mean+max")
MODELS = [
    pytest.param(
        tiny_model_shape(preset, head=head, direction=direction, pooling=pooling),
        id=f"{preset}-{direction}-{head}-{pooling}",
    )
    for preset, direction, (head, pooling) in itertools.product(
        PRESETS, ("causal", "bidirectional"), [("lm", "mean"), *(("classify", pooling) for pooling in POOLINGS)]
    )
]
LENGTHS = [7, 1, 13, 4, 13]


def rows_of(model: TextModel, logits: torch.Tensor, lengths: list[int]) -> list[torch.Tensor]:
    """The outputs that belong to each sequence."""
    return list(logits.split(lengths)) if model.shape.head == "lm" else list(logits.split(1))


@pytest.mark.parametrize("shape", MODELS)
@torch.no_grad()
def test_padding_batch_size_and_neighbours_never_change_an_output(shape: ModelShape) -> None:
    model = build_model(shape, seed=1)
    sequences = random_sequences(LENGTHS)
    together = rows_of(model, model(flat_batch(sequences)), LENGTHS)
    order = [3, 0, 4, 2, 1]
    shuffled = rows_of(
        model, model(flat_batch([sequences[index] for index in order])), [LENGTHS[index] for index in order]
    )
    for position, index in enumerate(order):
        alone = model(flat_batch([sequences[index]]))
        torch.testing.assert_close(together[index], alone, atol=1e-5, rtol=0)
        torch.testing.assert_close(shuffled[position], alone, atol=1e-5, rtol=0)


@pytest.mark.parametrize("preset", PRESETS)
@torch.no_grad()
def test_future_tokens_never_change_a_causal_output_and_do_change_a_bidirectional_one(preset: str) -> None:
    for direction in ("causal", "bidirectional"):
        model = build_model(tiny_model_shape(preset, direction=direction), seed=2)
        first = random_sequences([12])[0]
        second = first.copy()
        second[8:] = (second[8:] + 5) % 61
        gap = (model(flat_batch([first]))[:8] - model(flat_batch([second]))[:8]).abs().max().item()
        assert (gap == 0) == (direction == "causal")


@pytest.mark.parametrize("preset", PRESETS)
def test_loss_at_initialisation_is_the_value_computed_for_that_initialisation(preset: str) -> None:
    """Logits of variance s^2 over V classes cost ln V + s^2 / 2; s^2 follows from the head and the vectors."""
    vocab_size = 4_000
    model = build_model(tiny_model_shape(preset, vocab_size=vocab_size), seed=4)
    stream = random_sequences([41] * 12, vocab_size=vocab_size)
    batch = tiny_batch("causal", stream, vocab_size=vocab_size)
    with torch.no_grad():
        loss = tiny_objective("causal").loss_sum(model, batch).item() / batch.num_targets
        squared_norm = model.hidden(batch).square().sum(1).mean().item()
    bound_variance = 0.1**2 / 3 if preset == "lab" else 0.02**2
    assert loss == pytest.approx(math.log(vocab_size) + squared_norm * bound_variance / 2, abs=0.1)


def labelled_batch() -> Batch:
    sequences = random_sequences([9, 3, 14, 6])
    return flat_batch(sequences, target_index=np.arange(4), target_value=np.array([0, 2, 1, 2]))


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("task", [*PRETRAINING, "classify"])
def test_one_batch_can_be_overfitted(preset: str, task: str) -> None:
    torch.manual_seed(0)
    if task == "classify":
        shape, objective, batch = tiny_model_shape(preset, head="classify"), ClassificationObjective(), labelled_batch()
    else:
        objective, batch = tiny_objective(task), tiny_batch(task, random_sequences([12, 9, 14, 10]))
        changes = {"type_vocab_size": 2} if objective.num_segments else {}
        shape = tiny_model_shape(preset, direction=objective.direction, **changes)
        shape = shape.changed(pair_head=objective.num_segments > 0)
    model = build_model(shape, seed=5).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(120):
        sums = objective.loss_sum(model, batch).reshape(-1)
        loss = sum(part / count for part, count in zip(sums, batch.target_counts, strict=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.2


def test_pooling_reads_each_sequence_alone() -> None:
    hidden = torch.tensor([[1.0, 5.0], [3.0, 1.0], [2.0, 2.0], [7.0, -1.0], [0.0, 4.0]])
    expected = {
        "last": [[3.0, 1.0], [0.0, 4.0]],
        "first": [[1.0, 5.0], [2.0, 2.0]],
        "mean": [[2.0, 3.0], [3.0, 5 / 3]],
        "max": [[3.0, 5.0], [7.0, 4.0]],
        "mean+max": [[2.0, 3.0, 3.0, 5.0], [3.0, 5 / 3, 7.0, 4.0]],
    }
    for pooling, values in expected.items():
        torch.testing.assert_close(pool(hidden, [2, 3], pooling), torch.tensor(values))


@torch.no_grad()
def test_initialisation_of_the_lab_preset_is_as_stated() -> None:
    model = build_model(ModelShape(base=tiny_model_shape("lab", vocab_size=5_000).base), seed=0)
    embedding, layer = model.base.embedding.weight, model.base.layers[0]
    assert embedding.abs().max() <= 0.1
    assert embedding.std().item() == pytest.approx(0.1 / 3**0.5, rel=0.02)
    assert model.head.weight is not None
    assert model.head.weight.abs().max() <= 0.1
    assert model.head.bias is not None
    assert not model.head.bias.any()
    assert not layer.attention.qkv.bias.any()
    assert not layer.attention.output.bias.any()
    assert layer.attention.qkv.weight.abs().max() == pytest.approx((6 / (4 * 32)) ** 0.5, rel=0.02)
    assert layer.feed_forward.up.weight.abs().max() == pytest.approx(32**-0.5, rel=0.02)
    assert layer.feed_forward.up.bias.any()
    assert (layer.attention_norm.weight == 1).all()


@torch.no_grad()
def test_initialisation_of_the_other_presets_is_normal_with_scaled_residual_writers() -> None:
    for preset, factor in (("gpt2-small", (2 * 2) ** -0.5), ("bert-base", 1.0)):
        base = build_model(tiny_model_shape(preset, vocab_size=5_000), seed=0).base
        assert base.embedding.weight.std().item() == pytest.approx(0.02, rel=0.02)
        assert base.layers[1].feed_forward.down.weight.std().item() == pytest.approx(0.02 * factor, rel=0.1)
        assert not base.layers[0].feed_forward.up.bias.any()


def test_the_same_seed_gives_the_same_base_under_any_head_and_another_seed_another() -> None:
    first = build_model(tiny_model_shape(head="lm"), seed=7).base.state_dict()
    second = build_model(tiny_model_shape(head="classify"), seed=7).base.state_dict()
    third = build_model(tiny_model_shape(head="lm"), seed=8).base.state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert not torch.equal(first["embedding.weight"], third["embedding.weight"])
