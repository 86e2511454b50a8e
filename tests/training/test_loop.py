"""The loop: sums over targets, equal for any cut into micro-batches, and unable to take a broken step."""

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
from headswap.objectives.supervised import ClassificationObjective
from headswap.training import loop as engine
from headswap.training.config import MachineSettings, TrainingSettings
from headswap.training.device import Machine
from headswap.training.distributed import Processes
from headswap.training.gradients import LossModule
from headswap.training.loop import train
from headswap.training.optimizer import (
    GroupRate,
    is_without_decay,
    load_optimizer_tensors,
    make_optimizer,
    optimizer_tensors,
)
from tiny import pieces_of, random_sequences, tiny_model_shape, tiny_objective


@dataclass
class RaggedBatches:
    """Six ragged sequences a step."""

    objective: object

    def micro_batches(self, step: int, *, count: int) -> list[Batch]:
        sequences = random_sequences([3, 17, 8, 2, 11, 6], seed=step)
        parts = [part for part in np.array_split(np.arange(6), count) if len(part)]
        return [self._batch([sequences[row] for row in part]) for part in parts]

    def _batch(self, sequences: list[np.ndarray]) -> Batch:
        if isinstance(self.objective, ClassificationObjective):
            labels = np.array([int(ids[0]) % 3 for ids in sequences])
            return flat_batch(sequences, target_index=np.arange(len(sequences)), target_value=labels)
        return self.objective.make_batch(pieces_of(sequences), Draws(0, "mask"))


def settings(**changes: object) -> TrainingSettings:
    return TrainingSettings.model_validate({"learning_rate": 1e-2, "warmup_steps": 0, "seed": 5, **changes})


def run(
    model: TextModel, source: RaggedBatches, *, steps: int = 4, first_step: int = 0, optimizer=None, **changes: object
):
    chosen = settings(**changes)
    optimizer = optimizer or make_optimizer(model, chosen)
    machine = Machine(MachineSettings(device="cpu", threads=2))
    module = LossModule(model, source.objective)
    records = train(
        module, optimizer, source, settings=chosen, machine=machine, processes=Processes(),
        first_step=first_step, total_steps=steps,
    )  # fmt: skip
    return records, optimizer


OBJECTIVES = [
    pytest.param("lm", tiny_objective(), id="causal"),
    pytest.param("classify", ClassificationObjective(), id="classify"),
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


@pytest.mark.parametrize("head", ["lm", "classify"])
def test_stopping_and_going_on_equals_an_uninterrupted_run_bit_for_bit(head: str) -> None:
    objective = tiny_objective() if head == "lm" else ClassificationObjective()
    source = RaggedBatches(objective)
    shape = tiny_model_shape(head=head, dropout=0.2)
    whole = build_model(shape, seed=1)
    list(run(whole, source, steps=6)[0])
    first = build_model(shape, seed=1)
    records, optimizer = run(first, source, steps=6)
    for _ in range(3):
        next(records)
    torch.manual_seed(12345)  # whatever the process drew meanwhile must not matter
    second = build_model(shape, seed=77)
    second.load_state_dict(first.state_dict())
    restored = make_optimizer(second, settings())
    load_optimizer_tensors(second, restored, optimizer_tensors(first, optimizer))
    list(run(second, source, steps=6, first_step=3, optimizer=restored)[0])
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name]), name


def test_dropout_is_drawn_from_the_step_and_not_from_what_came_before() -> None:
    losses = []
    for noise in (0, 1):
        torch.manual_seed(noise)
        model = build_model(tiny_model_shape(dropout=0.3), seed=1)
        records, _ = run(model, RaggedBatches(tiny_objective()))
        losses.append([record.loss.item() for record in records])
    assert losses[0] == losses[1]


def test_nan_stops_before_the_step_and_no_later_step_moves_a_weight() -> None:
    model = build_model(tiny_model_shape(), seed=1)
    records, _ = run(model, RaggedBatches(tiny_objective()), steps=6)
    next(records)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    healthy = model.base.embedding.weight.data.clone()
    model.base.embedding.weight.data[:] = float("nan")
    broken = next(records)
    model.base.embedding.weight.data.copy_(healthy)
    after = next(records)
    assert broken.is_broken.item() == 1
    assert after.is_broken.item() == 1, "a broken run stays stopped until its caller has seen it"
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_frozen_weights_do_not_move() -> None:
    model = build_model(tiny_model_shape(head="classify"), seed=1)
    model.base.requires_grad_(False)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    list(run(model, RaggedBatches(ClassificationObjective()), weight_decay=0.5)[0])
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]) == name.startswith("base.")


@pytest.mark.parametrize("accumulation", [1, 2])
def test_layers_that_wait_for_their_turn_cost_no_gradient_and_the_same_is_learnt(
    monkeypatch: pytest.MonkeyPatch, accumulation: int
) -> None:
    found = []
    for is_asked in (True, False):
        model = build_model(tiny_model_shape(head="classify"), seed=1)
        rates = {
            name: GroupRate(frozen_until=2 if name.startswith("base.") else 0) for name, _ in model.named_parameters()
        }
        computed: list[int] = []
        optimizer = make_optimizer(model, settings(), rates)
        if not is_asked:
            monkeypatch.setattr(engine, "require_gradients", lambda *_: None)
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
            assert all(tensor.requires_grad for tensor in model.parameters()), "nobody else need know"
        before_turn = computed[: [place for place, mark in enumerate(computed) if mark == 0][1]]
        assert (1 in before_turn) == (not is_asked)
        assert computed.count(1) == accumulation * (2 if is_asked else 4)
        found.append((losses, {name: tensor.clone() for name, tensor in model.state_dict().items()}))
    assert found[0][0] == found[1][0]
    assert all(torch.equal(tensor, found[1][1][name]) for name, tensor in found[0][1].items())


def test_steps_are_those_of_pytorchs_own_adamw_to_the_bit() -> None:
    ours, theirs = (build_model(tiny_model_shape(head="classify"), seed=1) for _ in range(2))
    rates = {name: GroupRate(lr_scale=0.5 if name.startswith("base.") else 2.0) for name, _ in ours.named_parameters()}
    chosen = settings(weight_decay=0.1)
    optimizer = make_optimizer(ours, chosen, rates)
    peer = torch.optim.AdamW(
        [
            {
                "params": [tensor], "lr": 1e-2 * rates[name].lr_scale,
                "weight_decay": 0.0 if is_without_decay(name) else 0.1,
            }
            for name, tensor in theirs.named_parameters()
        ],
        betas=(chosen.adam_beta1, chosen.adam_beta2), eps=chosen.adam_epsilon, fused=True,
    )  # fmt: skip
    generator = torch.Generator().manual_seed(0)
    for step in range(6):
        is_broken = torch.tensor(float(step == 2))
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            one.grad = torch.randn(one.shape, generator=generator)
            other.grad = one.grad.clone()
        optimizer.step(1e-2, is_broken=is_broken)
        peer.found_inf, peer.grad_scale = is_broken, None
        peer.step()
        assert all(torch.equal(*pair) for pair in zip(ours.parameters(), theirs.parameters(), strict=True))
    state, wanted = (next(iter(one.state.values())) for one in (optimizer, peer))
    assert {name: tensor.tolist() for name, tensor in state.items()} == {
        name: tensor.tolist() for name, tensor in wanted.items()
    }
    assert state["step"] == 5, "a step that was called off does not count"


def test_a_process_that_trains_on_a_cpu_loads_no_compiler() -> None:
    program = """
import sys
from test_engine import ClassificationObjective, RaggedBatches, build_model, run, tiny_model_shape
list(run(build_model(tiny_model_shape(head="classify"), seed=1), RaggedBatches(ClassificationObjective()))[0])
print(*(name for name in ("torch._dynamo", "sympy") if name in sys.modules))
"""
    here = Path(__file__).parent
    paths = os.pathsep.join([str(here), str(here.parent), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}
    )
    assert (done.stdout.strip(), done.returncode) == ("", 0), done.stderr


def test_biases_and_norms_are_not_decayed() -> None:
    model = build_model(tiny_model_shape("lab"), seed=1)
    optimizer = make_optimizer(model, settings(weight_decay=0.1))
    names = {id(tensor): name for name, tensor in model.named_parameters()}
    groups = {group.weight_decay: {names[id(tensor)] for tensor in group.tensors} for group in optimizer.groups}
    assert all(name.endswith("bias") or "norm" in name for name in groups[0.0])
    assert not any(name.endswith("bias") or "norm" in name for name in groups[0.1])
    assert len(groups[0.0]) + len(groups[0.1]) == len(names)


def test_clipping_bounds_the_step_and_reports_the_norm_before_it() -> None:
    model = build_model(tiny_model_shape(), seed=1)
    records, _ = run(model, RaggedBatches(tiny_objective()), max_grad_norm=1e-3)
    assert next(records).grad_norm.item() > 1e-2
