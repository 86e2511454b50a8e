"""Seeds: equal seeds give equal bits, other seeds other runs; threads do not change the data order."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import headswap as hs
from headswap.objectives.causal import CausalObjective
from headswap.objectives.supervised import ClassificationObjective
from reliability.runs import differences, finetune, pretrain, write_files

Seen = list[tuple[int, ...]]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return write_files(tmp_path / "files")


def recorded(monkeypatch: pytest.MonkeyPatch, objective: type) -> Seen:
    """The documents of every training batch, in the order in which they were seen."""
    seen: Seen = []
    loss_sum = objective.loss_sum

    def spying(self: Any, model: Any, batch: Any) -> Any:
        if model.training:
            seen.append(batch.documents)
        return loss_sum(self, model, batch)

    monkeypatch.setattr(objective, "loss_sum", spying)
    return seen


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("verb", [pretrain, finetune])
def test_the_same_seed_gives_the_same_bits_whatever_was_drawn_before(files: Path, verb: Any) -> None:
    one = verb(files, "one", seed=7)
    torch.manual_seed(99)
    torch.rand(5)
    other = verb(files, "other", seed=7)
    assert differences(one.path, other.path) == []


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize(("verb", "objective"), [(pretrain, CausalObjective), (finetune, ClassificationObjective)])
def test_another_seed_changes_initialisation_order_and_result(
    files: Path, monkeypatch: pytest.MonkeyPatch, verb: Any, objective: type
) -> None:
    orders, starts, ends = [], [], []
    for seed in (1, 2):
        seen = recorded(monkeypatch, objective)
        run = verb(files, f"seed-{seed}", seed=seed)
        monkeypatch.undo()
        orders.append(seen)
        starts.append(loss_before_training(run))
        ends.append(load_file(run.path / "bundle" / "model.safetensors"))
    assert orders[0] != orders[1]
    assert starts[0] != starts[1], "the loss before the first step depends on the initialisation"
    assert not any(torch.equal(ends[0][name], ends[1][name]) for name in ends[0] if ends[0][name].dim() > 1)


def loss_before_training(run: hs.Run) -> Any:
    first = run.metrics()[0]
    assert first["step"] == 0
    return first["eval_loss"]


@pytest.mark.parametrize(("verb", "objective"), [(pretrain, CausalObjective), (finetune, ClassificationObjective)])
def test_threads_never_change_the_data_order(
    files: Path, monkeypatch: pytest.MonkeyPatch, verb: Any, objective: type
) -> None:
    before = torch.get_num_threads()
    orders = []
    for threads in (1, 2):
        seen = recorded(monkeypatch, objective)
        verb(files, f"threads-{threads}", threads=threads)
        monkeypatch.undo()
        orders.append(seen)
    torch.set_num_threads(before)
    assert orders[0] == orders[1]
    assert len(orders[0]) >= 24


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("verb", [pretrain, finetune])
def test_every_run_records_what_it_was_made_with(files: Path, verb: Any) -> None:
    run = verb(files, "run", seed=11)
    environment = json.loads((run.path / "environment.json").read_text())
    assert environment["seed"] == 11
    assert environment["threads"] == 1
    assert environment["deterministic"] is True
    assert {"torch", "numpy", "headswap", "tokenizers"} <= set(environment["versions"])
    assert all(environment["versions"][name] for name in ("torch", "numpy", "headswap"))
    assert {"git_revision", "device", "processor", "precision", "python", "platform", "processes"} <= set(environment)
    assert (run.path / "recipe.toml").is_file()
