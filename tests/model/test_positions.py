"""Position encodings: sinusoidal values, and rotary scores that depend on distances."""

import torch

from headswap.model.positions import sinusoidal_table
from headswap.model.text_model import build_model
from tiny import layout_of, random_sequences, tiny_model_shape


def test_sinusoidal_positions_have_sine_on_even_and_cosine_on_odd_dimensions() -> None:
    table = sinusoidal_table(30, 8, torch.device("cpu"), torch.float64)
    position = torch.arange(30, dtype=torch.float64)
    for pair in range(4):
        angle = position / 10_000 ** (2 * pair / 8)
        torch.testing.assert_close(table[:, 2 * pair], angle.sin())
        torch.testing.assert_close(table[:, 2 * pair + 1], angle.cos())


@torch.no_grad()
def test_rotary_scores_depend_on_distances_only() -> None:
    """Shifting all positions changes no output with rotary positions, and does with sinusoidal ones."""
    for positions, is_equal in (("rotary", True), ("sinusoidal", False)):
        model = build_model(tiny_model_shape("small", positions=positions), seed=1).double()
        ids = torch.from_numpy(random_sequences([10])[0])
        layout = layout_of([10], causal=True)
        shifted = layout_of([10], causal=True)
        shifted.positions_N = shifted.positions_N + 7
        gap = (model.base(ids, layout) - model.base(ids, shifted)).abs().max().item()
        assert (gap < 1e-9) == is_equal
