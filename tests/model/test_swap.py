"""The head swap and its ledger."""

import pytest
import torch

from headswap.core.errors import RunError
from headswap.model import swap
from headswap.model.shape import PRESETS
from headswap.model.swap import scratch_ledger, swap_head
from headswap.model.text_model import build_model
from tiny import tiny_model_shape


@pytest.mark.parametrize("preset", PRESETS)
def test_swapping_the_head_leaves_the_base_bit_equal(preset: str) -> None:
    old = build_model(tiny_model_shape(preset), seed=1)
    before = {name: tensor.clone() for name, tensor in old.state_dict().items()}
    new, ledger = swap_head(old, tiny_model_shape(preset, head="classify"), seed=99, source="runs/base")
    for name, tensor in new.base.state_dict().items():
        assert torch.equal(tensor, before[f"base.{name}"])
        assert tensor.data_ptr() != old.base.state_dict()[name].data_ptr()
    assert all(torch.equal(tensor, before[name]) for name, tensor in old.state_dict().items())
    num_base = len(new.base.state_dict())
    assert ledger.count("carried", part="base.")[0] == num_base == ledger.count("carried")[0]
    assert ledger.count("new") == (2, 3 * 32 + 3)
    assert f"{num_base} of {num_base} base tensors" in ledger.sentence()


def test_another_seed_gives_another_head_on_the_same_base() -> None:
    old = build_model(tiny_model_shape(), seed=1)
    heads = [
        swap_head(old, tiny_model_shape(head="classify"), seed=seed, source="x")[0].head.output.weight
        for seed in (1, 2)
    ]
    assert not torch.equal(*heads)


def test_a_base_that_cannot_be_carried_whole_is_an_error() -> None:
    old = build_model(tiny_model_shape(), seed=1)
    with pytest.raises(
        RunError, match=r"Only 26 of the base's 27 tensors could be carried over from x; base.embedding"
    ):
        swap_head(old, tiny_model_shape(head="classify", vocab_size=62), seed=1, source="x")


def test_loading_that_is_broken_on_purpose_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy that silently does nothing must not pass for a transfer."""
    monkeypatch.setattr(torch.Tensor, "copy_", lambda self, other: self)
    with pytest.raises(RunError, match="tensors could be carried over"):
        swap_head(build_model(tiny_model_shape(), seed=1), tiny_model_shape(head="classify"), seed=2, source="x")


def test_the_ledger_of_a_scratch_model_says_that_all_is_new() -> None:
    model = build_model(tiny_model_shape(head="classify"), seed=1)
    ledger = scratch_ledger(model)
    assert ledger.count("carried") == (0, 0)
    assert "are new (from scratch)" in ledger.sentence()
    assert ledger.as_json()["new"] == {
        "tensors": len(model.state_dict()),
        "parameters": sum(t.numel() for t in model.parameters()),
    }


def test_checksums_tell_tensors_apart() -> None:
    assert swap.checksum(torch.zeros(3)) != swap.checksum(torch.zeros(4))
    assert swap.checksum(torch.ones(3)) == swap.checksum(torch.ones(3))
