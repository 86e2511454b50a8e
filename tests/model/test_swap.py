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


def test_another_seed_gives_a_different_head_on_the_same_base() -> None:
    old = build_model(tiny_model_shape(), seed=1)
    heads = [
        swap_head(old, tiny_model_shape(head="classify"), seed=seed, source="x")[0].head.output.weight
        for seed in (1, 2)
    ]
    assert not torch.equal(*heads)


def test_a_base_that_cannot_be_kept_in_full_is_an_error() -> None:
    old = build_model(tiny_model_shape(), seed=1)
    with pytest.raises(RunError, match=r"Only 26 of the base's 27 tensors could be kept from x; base.embedding"):
        swap_head(old, tiny_model_shape(head="classify", vocab_size=62), seed=1, source="x")


def test_a_copy_that_does_nothing_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger compares checksums, so it does not rely on the copy."""
    monkeypatch.setattr(torch.Tensor, "copy_", lambda self, other: self)
    with pytest.raises(RunError, match="tensors could be kept from"):
        swap_head(build_model(tiny_model_shape(), seed=1), tiny_model_shape(head="classify"), seed=2, source="x")


def test_in_the_ledger_of_a_scratch_model_every_tensor_is_new() -> None:
    model = build_model(tiny_model_shape(head="classify"), seed=1)
    ledger = scratch_ledger(model)
    assert ledger.count("carried") == (0, 0)
    assert "are new (from scratch)" in ledger.sentence()
    assert ledger.as_json()["new"] == {
        "tensors": len(model.state_dict()),
        "parameters": sum(t.numel() for t in model.parameters()),
    }


def test_different_tensors_have_different_checksums() -> None:
    assert swap.checksum(torch.zeros(3)) != swap.checksum(torch.zeros(4))
    assert swap.checksum(torch.ones(3)) == swap.checksum(torch.ones(3))
