"""A base with a head: its limit, and merged adapters."""

import pytest
import torch

from headswap.batches.batch import flat_batch
from headswap.model.shape import PRESETS, LoraShape
from headswap.model.text_model import build_model, merged
from tiny import (
    random_sequences,
    tiny_model_shape,
)

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_sequence_longer_than_the_limit_is_an_error() -> None:
    model = build_model(tiny_model_shape(), seed=0)
    with pytest.raises(Exception, match="41 tokens is longer than the base's limit of 40"):
        model(flat_batch(random_sequences([41])))


@pytest.mark.parametrize("preset", PRESETS)
def test_merging_keeps_the_outputs_of_every_preset(preset: str) -> None:
    shape = tiny_model_shape(preset, head="classify").changed(lora=LoraShape(rank=3, alpha=6.0))
    model = build_model(shape, seed=1)
    fresh = model(flat_batch(random_sequences([9, 4])))
    with torch.no_grad():
        for name, tensor in model.named_parameters():
            if name.endswith("lora_up"):
                tensor.normal_(0, 0.2, generator=torch.Generator().manual_seed(3))
    adapted = model(flat_batch(random_sequences([9, 4])))
    assert (adapted - fresh).abs().max() > 1e-3
    torch.testing.assert_close(merged(model)(flat_batch(random_sequences([9, 4]))), adapted, atol=1e-5, rtol=1e-5)
