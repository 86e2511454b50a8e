"""The optimizer of a run: which parameters are decayed, and which Muon updates."""

import pytest

from headswap.model.text_model import build_model
from headswap.training.config import OptimizerSettings, TrainingSettings
from headswap.training.optimizer import Together, make_optimizer
from tiny import tiny_model_shape


def test_biases_and_norms_are_not_decayed() -> None:
    model = build_model(tiny_model_shape("lab"), seed=1)
    optimizer = make_optimizer(model, TrainingSettings(weight_decay=0.1))
    names = {id(tensor): name for name, tensor in model.named_parameters()}
    groups = {group.weight_decay: {names[id(tensor)] for tensor in group.tensors} for group in optimizer.groups}
    assert all(name.endswith("bias") or "norm" in name for name in groups[0.0])
    assert not any(name.endswith("bias") or "norm" in name for name in groups[0.1])
    assert len(groups[0.0]) + len(groups[0.1]) == len(names)


@pytest.mark.parametrize("preset", ["lab", "modern", "bert-base"])
def test_muon_updates_the_matrices_of_the_layers_and_adamw_everything_else(preset: str) -> None:
    model = build_model(tiny_model_shape(preset), seed=1)
    optimizer = make_optimizer(model, OptimizerSettings(optimizer="muon"))
    names = {id(tensor): name for name, tensor in model.named_parameters()}
    assert isinstance(optimizer, Together)
    by_part = [[names[id(tensor)] for group in part.groups for tensor in group.tensors] for part in optimizer.parts]
    assert sorted([*by_part[0], *by_part[1]]) == sorted(names.values()), "each parameter once"
    kinds = {name.split(".layers.")[1].split(".", 1)[1] for name in by_part[0]}
    gate = {"feed_forward.gate.weight"} if preset == "modern" else set()
    others = {"attention.qkv.weight", "attention.output.weight", "feed_forward.up.weight", "feed_forward.down.weight"}
    assert kinds == others | gate
    assert len(by_part[0]) == 2 * len(kinds)
