"""The fused loss compared with PyTorch's cross entropy."""

from collections.abc import Iterator

import pytest
import torch

from headswap.kernels import chunked_loss
from headswap.kernels import policy as kernels
from headswap.kernels.chunked_loss import linear_cross_entropy_sum
from plain_loss import assert_equals_the_plain_loss


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
