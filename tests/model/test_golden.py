"""Golden outputs: equal for copies, different for other weights, without an effect on the model."""

import torch

from headswap.model.golden import GOLDEN_TOLERANCE, golden_outputs, largest_gap
from headswap.model.text_model import TextModel
from tiny import tiny_model_shape


def model(seed: int = 0, **changes: object) -> TextModel:
    torch.manual_seed(seed)
    return TextModel(tiny_model_shape(**changes))  # type: ignore[arg-type]


def test_a_copy_has_no_gap_and_a_changed_weight_is_seen() -> None:
    first, second = model(), model(1)
    second.load_state_dict(first.state_dict())
    assert largest_gap(first, second) == 0
    with torch.no_grad():
        weight = next(iter(second.parameters()))
        weight += torch.randn_like(weight)
    assert largest_gap(first, second) > GOLDEN_TOLERANCE


def test_dropout_is_off_and_the_mode_of_the_model_is_restored() -> None:
    found = model(dropout=0.5).train()
    assert golden_outputs(found) == golden_outputs(found)
    assert found.training


def test_lengths_are_within_the_positions_of_the_model() -> None:
    assert golden_outputs(model(max_position_embeddings=8))["lengths"] == [3, 8, 8]
