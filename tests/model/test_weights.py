"""Weights in a file: bf16 without loss, or not at all."""

from pathlib import Path

import pytest
import torch

from boxed import tiny_base
from headswap.bundle.bundle import Bundle
from headswap.model.golden import golden_outputs
from headswap.tokens.tokenizer import Tokenizer

pytestmark = pytest.mark.usefixtures("one_thread")


def test_weights_in_bf16_load_as_fp32_and_compute_the_same(tokenizer: Tokenizer, tmp_path: Path) -> None:
    bundle = Bundle.load(tiny_base(tmp_path / "whole", tokenizer))
    for tensor in bundle.model.parameters():
        tensor.data = tensor.data.bfloat16().float()
    bundle.save(tmp_path / "half", dtype=torch.bfloat16)
    sizes = [(tmp_path / name / "model.safetensors").stat().st_size for name in ("whole", "half")]
    assert sizes[1] < 0.6 * sizes[0]
    loaded = Bundle.load(tmp_path / "half")
    assert {tensor.dtype for tensor in loaded.model.state_dict().values()} == {torch.float32}
    assert loaded.verify() == []
    assert golden_outputs(loaded.model) == golden_outputs(bundle.model), "bit-identical"


def test_weights_that_bf16_cannot_represent_are_not_rounded_silently(tokenizer: Tokenizer, tmp_path: Path) -> None:
    bundle = Bundle.load(tiny_base(tmp_path / "whole", tokenizer))
    with pytest.raises(AssertionError, match="not exact"):
        bundle.save(tmp_path / "half", dtype=torch.bfloat16)
    assert not (tmp_path / "half").exists()
