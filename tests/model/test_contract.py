"""Properties of every preset, direction, head and task."""

import itertools
import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from headswap import registry
from headswap.batches.batch import Batch, flat_batch
from headswap.model.shape import PRESETS
from headswap.model.text_model import ModelShape, TextModel, build_model
from headswap.objectives.supervised import (
    ClassificationObjective,
    MultiLabelObjective,
    RegressionObjective,
    SpanObjective,
    SupervisedObjective,
)
from tiny import OPTIONS, random_sequences, tiny_batch, tiny_model_shape, tiny_objective

pytestmark = pytest.mark.usefixtures("one_thread")
POOLINGS = ("last", "mean", "first", "max", "mean+max", "weighted-mean")
MODELS = [
    pytest.param(
        tiny_model_shape(preset, head=head, direction=direction, pooling=pooling),
        id=f"{preset}-{direction}-{head}-{pooling}",
    )
    for preset, direction, (head, pooling) in itertools.product(
        PRESETS,
        ("causal", "bidirectional"),
        [
            ("lm", "mean"), ("tag", "mean"), ("span", "mean"),
            *(("classify", pooling) for pooling in POOLINGS),
            *(("compare", pooling) for pooling in ("mean", "mean+max")),
        ],
    )
]  # fmt: skip
MODELS += [
    pytest.param(tiny_model_shape(preset, head=head, direction=direction, **changes), id=f"{name}-{direction}-{head}")
    for (name, (preset, changes)), direction, head in itertools.product(
        OPTIONS.items(), ("causal", "bidirectional"), ("lm", "classify")
    )
]
LENGTHS = [7, 1, 13, 4, 13]


@dataclass(frozen=True)
class TaskFixture:
    """A task in these tests: its head and objective, the targets of each of `LENGTHS`, and the loss before training."""

    head: str
    objective: type[SupervisedObjective]
    places: list[list[int]]
    values: list[np.ndarray]
    first_loss: float

    @property
    def is_per_token(self) -> bool:
        return registry.HEADS.load(self.head).is_per_token

    def batch(self, sequences: list[np.ndarray], chosen: list[int]) -> Batch:
        """A batch of some of the sequences with their targets."""
        begins = np.cumsum([0, *(len(sequences[number]) for number in chosen)]) if self.is_per_token else range(99)
        index = [place + begin for number, begin in zip(chosen, begins, strict=False) for place in self.places[number]]
        values = np.concatenate([self.values[number] for number in chosen])
        return flat_batch(inputs(self.head, sequences, chosen), target_index=index, target_value=values)


def inputs(head: str, sequences: list[np.ndarray], chosen: list[int]) -> list[np.ndarray]:
    """The chosen sequences; for a head that compares two, each of them and the one after it."""
    count = 1 if head == "lm" else registry.HEADS.load(head).sequences_per_target
    return [sequences[(number + place) % len(sequences)] for number in chosen for place in range(count)]


WHOLE = [[0]] * 5
TASKS = {
    "classify": TaskFixture(
        "classify", ClassificationObjective, WHOLE, [np.array([n % 3]) for n in range(5)], math.log(3)
    ),
    "multilabel": TaskFixture(
        "classify",
        MultiLabelObjective,
        WHOLE,
        [np.array([[n % 2, 1, n % 3 == 0]], dtype=np.float32) for n in range(5)],
        math.log(2),
    ),
    "regress": TaskFixture(
        "classify", RegressionObjective, WHOLE, [np.array([n - 2.0], dtype=np.float32) for n in range(5)], 2.0
    ),
    "two texts": TaskFixture(
        "compare", ClassificationObjective, WHOLE, [np.array([n % 3]) for n in range(5)], math.log(3)
    ),
    "tag": TaskFixture(
        "tag",
        ClassificationObjective,
        [[1, 4, 6], [0], [2], [0, 3], [5]],
        [np.arange(size) % 3 for size in (3, 1, 1, 2, 1)],
        math.log(3),
    ),
    "span": TaskFixture(
        "span",
        SpanObjective,
        [[2, 4], [0, 0], [5, 9], [1, 1], [0, 0]],
        [np.array([0, 1])] * 5,
        float(np.log(LENGTHS).mean()),
    ),
}


def task_model(task: str, preset: str = "small") -> TextModel:
    shape = tiny_model_shape(preset, head=TASKS[task].head)
    return build_model(shape.changed(num_labels=1) if task == "regress" else shape, seed=5)


def test_every_task_and_every_head_has_its_fixture() -> None:
    assert set(TASKS) == {*registry.TASKS, "two texts"}
    assert {fixture.head for fixture in TASKS.values()} == set(registry.HEADS)


def rows_of(model: TextModel, logits: torch.Tensor, lengths: list[int]) -> list[torch.Tensor]:
    """The outputs of each sequence."""
    is_per_token = model.shape.head == "lm" or registry.HEADS.load(model.shape.head).is_per_token
    return list(logits.split(lengths)) if is_per_token else list(logits.split(1))


@pytest.mark.parametrize("shape", MODELS)
@torch.no_grad()
def test_padding_batch_size_and_neighbours_never_change_an_output(shape: ModelShape) -> None:
    model = build_model(shape, seed=1)
    sequences, head = random_sequences(LENGTHS), shape.head
    together = rows_of(model, model(flat_batch(inputs(head, sequences, [0, 1, 2, 3, 4]))), LENGTHS)
    order = [3, 0, 4, 2, 1]
    shuffled = rows_of(model, model(flat_batch(inputs(head, sequences, order))), [LENGTHS[index] for index in order])
    for position, index in enumerate(order):
        alone = model(flat_batch(inputs(head, sequences, [index])))
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
    """Logits of variance s^2 over V classes give a loss of ln V + s^2 / 2; s^2 follows from head and vectors."""
    vocab_size = 4_000
    model = build_model(tiny_model_shape(preset, vocab_size=vocab_size), seed=4)
    stream = random_sequences([41] * 12, vocab_size=vocab_size)
    batch = tiny_batch("causal", stream, vocab_size=vocab_size)
    with torch.no_grad():
        loss = tiny_objective("causal").loss_sum(model, batch).item() / batch.num_targets
        squared_norm = model.hidden(batch).square().sum(1).mean().item()
    bound_variance = 0.1**2 / 3 if preset == "lab" else 0.02**2
    assert loss == pytest.approx(math.log(vocab_size) + squared_norm * bound_variance / 2, abs=0.1)


@pytest.mark.parametrize("task", TASKS)
@torch.no_grad()
def test_a_tasks_loss_is_a_sum_over_targets_and_independent_of_the_batch(task: str) -> None:
    model, objective, fixture = task_model(task).double(), TASKS[task].objective(), TASKS[task]
    sequences = random_sequences(LENGTHS)
    together = fixture.batch(sequences, [3, 0, 4, 2, 1])
    alone = [fixture.batch(sequences, [number]) for number in range(5)]
    assert together.num_targets == sum(batch.num_targets for batch in alone)
    total = sum(objective.loss_sum(model, batch).item() for batch in alone)
    assert objective.loss_sum(model, together).item() == pytest.approx(total, abs=1e-9)
    assert objective.loss_sum(model, together.without_targets()).item() == 0


@pytest.mark.parametrize("task", TASKS)
@torch.no_grad()
def test_a_tasks_loss_at_initialisation_is_that_of_uniform_predictions(task: str) -> None:
    batch = TASKS[task].batch(random_sequences(LENGTHS), [0, 1, 2, 3, 4])
    loss = TASKS[task].objective().loss_sum(task_model(task), batch).item() / batch.num_targets
    assert loss == pytest.approx(TASKS[task].first_loss, abs=0.1)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("task", [*registry.OBJECTIVES, *TASKS])
def test_one_batch_can_be_overfitted(preset: str, task: str) -> None:
    torch.manual_seed(0)
    if task in TASKS:
        model, objective = task_model(task, preset).train(), TASKS[task].objective()
        batch = TASKS[task].batch(random_sequences(LENGTHS), [0, 1, 2, 3, 4])
    else:
        objective, batch = tiny_objective(task), tiny_batch(task, random_sequences([12, 9, 14, 10]))
        changes = {"type_vocab_size": 2} if objective.num_segments else {}
        shape = tiny_model_shape(preset, direction=objective.direction, **changes)
        model = build_model(shape.changed(pair_head=objective.num_segments > 0), seed=5).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(200 if task in TASKS else 120):
        sums = objective.loss_sum(model, batch).reshape(-1)
        loss = sum(part / count for part, count in zip(sums, batch.target_counts, strict=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.2
