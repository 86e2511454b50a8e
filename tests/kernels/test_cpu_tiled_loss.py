"""The loss in tiles on a CPU."""

import pytest
import torch
import torch.nn.functional as F

from headswap.kernels import cpu_tiled_loss
from headswap.kernels.chunked_loss import linear_cross_entropy_sum
from plain_loss import assert_equals_the_plain_loss


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize(("chunk", "tile"), [(1024, 2048), (5, 3), (23, 1), (1, 17)])
def test_tiled_loss_and_gradients_equal_the_plain_ones_in_float64(
    has_bias: bool, chunk: int, tile: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_tiled_loss, "CHUNK", chunk)
    monkeypatch.setattr(cpu_tiled_loss, "TILE", tile)
    assert_equals_the_plain_loss(has_bias)


@pytest.mark.parametrize("far", [50.0, 200.0, 3000.0])
def test_tiled_gradients_are_right_where_the_target_is_far_below_a_later_tile(
    far: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_tiled_loss, "TILE", 2)
    leaves = [torch.tensor([[1.0, far], [-1.0, far]]), torch.tensor([[1.0, -1.0], [2.0, 0.0], [0.5, 0.5], [0.0, 1.0]])]
    target = torch.tensor([0, 3])
    results = []
    for loss_of in (linear_cross_entropy_sum, lambda h, w, b, t: F.cross_entropy(h @ w.T, t, reduction="sum")):
        hidden, weight = (leaf.clone().requires_grad_() for leaf in leaves)
        loss = loss_of(hidden, weight, None, target)
        loss.backward()
        results.append((loss.detach(), hidden.grad, weight.grad))
    for tiled, plain in zip(*results, strict=True):
        torch.testing.assert_close(tiled, plain, rtol=1e-5, atol=1e-5)


def test_tiled_loss_in_bf16_is_not_negative_and_its_gradient_accurate_for_confident_models() -> None:
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn(300, 16, generator=generator)
    target = torch.arange(300)
    hidden = (weight * 4).requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = linear_cross_entropy_sum(hidden, weight, None, target)
    loss.backward()
    exact = torch.softmax(hidden.detach() @ weight.T, dim=1) - torch.eye(300)
    assert loss.item() >= 0
    assert hidden.grad is not None
    gap = (hidden.grad - exact @ weight).norm() / (exact @ weight).norm()
    assert gap < 0.03
