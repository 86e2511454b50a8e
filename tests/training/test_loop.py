"""The training loop: losses per target, micro-batches, resuming, and steps with non-finite numbers."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from headswap.batches.batch import Batch, flat_batch
from headswap.core.random_streams import Draws
from headswap.model.text_model import TextModel, build_model
from headswap.objectives.adversarial import AdversarialObjective
from headswap.objectives.rdrop import RDropObjective
from headswap.objectives.supervised import ClassificationObjective
from headswap.training import gradients
from headswap.training.config import MachineSettings, OptimizerSettings
from headswap.training.device import Machine
from headswap.training.distributed import Processes
from headswap.training.gradients import LossModule
from headswap.training.loop import train
from headswap.training.optimizer import load_optimizer_tensors, make_optimizer, optimizer_tensors
from headswap.training.parameter_groups import GroupRate
from tiny import pieces_of, random_sequences, tiny_model_shape, tiny_objective


@dataclass
class RaggedBatches:
    """Six sequences of different lengths per step."""

    objective: object

    def micro_batches(self, step: int, *, count: int) -> list[Batch]:
        sequences = random_sequences([3, 17, 8, 2, 11, 6], seed=step)
        parts = [part for part in np.array_split(np.arange(6), count) if len(part)]
        return [self._batch([sequences[row] for row in part]) for part in parts]

    def _batch(self, sequences: list[np.ndarray]) -> Batch:
        if not hasattr(self.objective, "make_batch"):
            labels = np.array([int(ids[0]) % 3 for ids in sequences])
            return flat_batch(sequences, target_index=np.arange(len(sequences)), target_value=labels)
        return self.objective.make_batch(pieces_of(sequences), Draws(0, "mask"))


def settings(**changes: object) -> OptimizerSettings:
    return OptimizerSettings.model_validate({"learning_rate": 1e-2, "warmup_steps": 0, "seed": 5, **changes})


def run(
    model: TextModel, source: RaggedBatches, *, steps: int = 4, first_step: int = 0, optimizer=None,
    optimizer_name: str = "adamw", **changes: object,
):  # fmt: skip
    chosen = settings(optimizer=optimizer_name, **changes)
    optimizer = optimizer or make_optimizer(model, chosen)
    machine = Machine(MachineSettings(device="cpu", threads=2))
    module = LossModule(model, source.objective)
    records = train(
        module, optimizer, source, settings=chosen, machine=machine, processes=Processes(),
        first_step=first_step, total_steps=steps,
    )  # fmt: skip
    return records, optimizer


WITH_TERMS = AdversarialObjective(RDropObjective(ClassificationObjective(), alpha=1.0), epsilon=0.1)
OBJECTIVES = [
    pytest.param("lm", tiny_objective(), id="causal"),
    pytest.param("classify", ClassificationObjective(), id="classify"),
    pytest.param("classify", WITH_TERMS, id="classify with R-Drop and adversarial training"),
]


@pytest.mark.parametrize(("head", "objective"), OBJECTIVES)
@pytest.mark.parametrize("accumulation", [2, 3, 6])
def test_micro_batches_of_ragged_data_equal_one_batch(head: str, objective: object, accumulation: int) -> None:
    states, losses = [], []
    for count in (1, accumulation):
        model = build_model(tiny_model_shape(head=head), seed=1).double()
        records, _ = run(model, RaggedBatches(objective), gradient_accumulation_steps=count)
        losses.append([record.loss.item() for record in records])
        states.append(model.state_dict())
    assert losses[0] == pytest.approx(losses[1], abs=1e-9)
    for name in states[0]:
        torch.testing.assert_close(states[0][name], states[1][name], atol=1e-7, rtol=0)


def test_the_loss_is_the_sum_over_targets_divided_by_their_number() -> None:
    objective = tiny_objective()
    model = build_model(tiny_model_shape(), seed=1).double()
    source = RaggedBatches(objective)
    batch = source.micro_batches(0, count=1)[0]
    with torch.no_grad():
        expected = torch.nn.functional.cross_entropy(model(batch), batch.target_value_T).item()
    records, _ = run(model, source, gradient_accumulation_steps=3)
    assert next(records).loss.item() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", ["adamw", "muon"])
@pytest.mark.parametrize(("head", "objective"), OBJECTIVES)
def test_a_resumed_run_equals_an_uninterrupted_run_bit_for_bit(head: str, objective: object, name: str) -> None:
    source = RaggedBatches(objective)
    shape = tiny_model_shape(head=head, dropout=0.2)
    whole = build_model(shape, seed=1)
    list(run(whole, source, steps=6, optimizer_name=name)[0])
    first = build_model(shape, seed=1)
    records, optimizer = run(first, source, steps=6, optimizer_name=name)
    for _ in range(3):
        next(records)
    torch.manual_seed(12345)  # random numbers drawn in between must not matter
    second = build_model(shape, seed=77)
    second.load_state_dict(first.state_dict())
    restored = make_optimizer(second, settings(optimizer=name))
    load_optimizer_tensors(second, restored, optimizer_tensors(first, optimizer))
    list(run(second, source, steps=6, first_step=3, optimizer=restored)[0])
    for key, tensor in whole.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[key]), key


def test_dropout_depends_on_the_step_and_not_on_earlier_draws() -> None:
    losses = []
    for noise in (0, 1):
        torch.manual_seed(noise)
        model = build_model(tiny_model_shape(dropout=0.3), seed=1)
        records, _ = run(model, RaggedBatches(tiny_objective()))
        losses.append([record.loss.item() for record in records])
    assert losses[0] == losses[1]


@pytest.mark.parametrize("name", ["adamw", "muon"])
def test_after_a_nan_loss_no_step_changes_a_weight(name: str) -> None:
    model = build_model(tiny_model_shape(), seed=1)
    records, _ = run(model, RaggedBatches(tiny_objective()), steps=6, optimizer_name=name)
    next(records)
    before = {key: tensor.clone() for key, tensor in model.state_dict().items()}
    healthy = model.base.embedding.weight.data.clone()
    model.base.embedding.weight.data[:] = float("nan")
    broken = next(records)
    model.base.embedding.weight.data.copy_(healthy)
    after = next(records)
    assert broken.is_broken.item() == 1
    assert after.is_broken.item() == 1, "later steps change nothing either"
    assert all(torch.equal(tensor, before[key]) for key, tensor in model.state_dict().items())


def test_frozen_weights_are_not_changed() -> None:
    model = build_model(tiny_model_shape(head="classify"), seed=1)
    model.base.requires_grad_(False)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    list(run(model, RaggedBatches(ClassificationObjective()), weight_decay=0.5)[0])
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]) == name.startswith("base.")


@pytest.mark.parametrize("accumulation", [1, 2])
def test_layers_that_are_frozen_until_a_later_step_get_no_gradient_and_results_are_the_same(
    monkeypatch: pytest.MonkeyPatch, accumulation: int
) -> None:
    found = []
    for is_skipped in (True, False):
        model = build_model(tiny_model_shape(head="classify"), seed=1)
        rates = {
            name: GroupRate(frozen_until=2 if name.startswith("base.") else 0) for name, _ in model.named_parameters()
        }
        computed: list[int] = []
        optimizer = make_optimizer(model, settings(), rates)
        if not is_skipped:
            monkeypatch.setattr(gradients, "require_gradients", lambda *_: None)
        records, _ = run(
            model, RaggedBatches(ClassificationObjective()), optimizer=optimizer,
            gradient_accumulation_steps=accumulation,
        )  # fmt: skip
        watched = model.base.embedding.weight
        watched.register_post_accumulate_grad_hook(lambda _, into=computed: into.append(1))
        losses = []
        for record in records:
            losses.append(record.loss.item())
            computed.append(0)
            assert all(tensor.requires_grad for tensor in model.parameters()), "restored after the step"
        while_frozen = computed[: [place for place, mark in enumerate(computed) if mark == 0][1]]
        assert (1 in while_frozen) == (not is_skipped)
        assert computed.count(1) == accumulation * (2 if is_skipped else 4)
        found.append((losses, {name: tensor.clone() for name, tensor in model.state_dict().items()}))
    assert found[0][0] == found[1][0]
    assert all(torch.equal(tensor, found[1][1][name]) for name, tensor in found[0][1].items())


def test_training_on_a_cpu_does_not_import_the_compiler() -> None:
    program = """
import sys
from test_loop import ClassificationObjective, RaggedBatches, build_model, run, tiny_model_shape
list(run(build_model(tiny_model_shape(head="classify"), seed=1), RaggedBatches(ClassificationObjective()))[0])
print(*(name for name in ("torch._dynamo", "sympy") if name in sys.modules))
"""
    here = Path(__file__).parent
    paths = os.pathsep.join([str(here), str(here.parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}
    )
    assert (done.stdout.strip(), done.returncode) == ("", 0), done.stderr


def test_the_reported_gradient_norm_is_that_before_clipping() -> None:
    model = build_model(tiny_model_shape(), seed=1)
    records, _ = run(model, RaggedBatches(tiny_objective()), max_grad_norm=1e-3)
    assert next(records).grad_norm.item() > 1e-2
