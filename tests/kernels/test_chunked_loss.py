"""The fused and the tiled loss compared with PyTorch's cross entropy."""

from collections.abc import Iterator

import pytest
import torch
import torch.nn.functional as F

from headswap.kernels import chunked_loss, cpu_tiled_loss
from headswap.kernels import policy as kernels
from headswap.kernels.chunked_loss import linear_cross_entropy_sum


@pytest.fixture
def plain_kernels() -> Iterator[None]:
    """Fast kernels are off, as with `--fast off`."""
    kernels.allow_fast_kernels(False)
    yield
    kernels.allow_fast_kernels(True)


@pytest.mark.usefixtures("plain_kernels")
@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("chunk_elements", [50, 1 << 24])
def test_chunked_loss_and_gradients_equal_the_plain_ones_in_float64(
    has_bias: bool, chunk_elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(chunked_loss.CHUNK_ELEMENTS, "cpu", chunk_elements)
    assert_equals_the_plain_loss(has_bias)


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize(("chunk", "tile"), [(1024, 2048), (5, 3), (23, 1), (1, 17)])
def test_tiled_loss_and_gradients_equal_the_plain_ones_in_float64(
    has_bias: bool, chunk: int, tile: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cpu_tiled_loss, "CHUNK", chunk)
    monkeypatch.setattr(cpu_tiled_loss, "TILE", tile)
    assert_equals_the_plain_loss(has_bias)


def assert_equals_the_plain_loss(has_bias: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    leaves = [torch.randn(size, dtype=torch.float64, generator=generator) for size in ((23, 8), (17, 8), (17,))]
    target = torch.randint(0, 17, (23,), generator=generator)
    results = []
    for is_fused in (True, False):
        hidden, weight, bias = (leaf.clone().requires_grad_() for leaf in leaves)
        used_bias = bias if has_bias else None
        if is_fused:
            loss = linear_cross_entropy_sum(hidden, weight, used_bias, target)
        else:
            loss = F.cross_entropy(F.linear(hidden, weight, used_bias), target, reduction="sum")
        (loss * 0.37).backward()
        results.append([loss.detach(), hidden.grad, weight.grad, *([bias.grad] if has_bias else [])])
    for fused, plain in zip(*results, strict=True):
        torch.testing.assert_close(fused, plain, atol=1e-10, rtol=1e-10)
    with torch.no_grad():  # as in evaluation: no gradient is computed
        alone = linear_cross_entropy_sum(leaves[0], leaves[1], leaves[2] if has_bias else None, target)
    torch.testing.assert_close(alone, results[1][0], atol=1e-10, rtol=1e-10)


def test_fused_loss_of_no_targets_is_zero_with_zero_gradients() -> None:
    hidden, weight = torch.randn(0, 8, requires_grad=True), torch.randn(17, 8, requires_grad=True)
    loss = linear_cross_entropy_sum(hidden, weight, None, torch.empty(0, dtype=torch.long))
    loss.backward()
    assert loss.item() == 0
    assert weight.grad is not None
    assert not weight.grad.any()


def test_fused_loss_is_finite_where_exp_would_overflow() -> None:
    hidden, weight = torch.full((2, 4), 50.0, requires_grad=True), torch.eye(4, requires_grad=True)
    loss = linear_cross_entropy_sum(hidden * 10, weight, None, torch.tensor([0, 1]))
    assert loss.item() == pytest.approx(2 * torch.tensor(4.0).log().item(), rel=1e-5)


def test_fused_loss_under_autocast_is_close_to_full_precision() -> None:
    generator = torch.Generator().manual_seed(2)
    hidden, weight = torch.randn(64, 32, generator=generator), torch.randn(50, 32, generator=generator) * 0.1
    target = torch.randint(0, 50, (64,), generator=generator)
    full = linear_cross_entropy_sum(hidden, weight, None, target)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = linear_cross_entropy_sum(hidden, weight, None, target)
    assert half.dtype == torch.float32
    assert half.item() == pytest.approx(full.item(), rel=5e-3)


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
