"""The fused head and loss against the plain ones."""

import pytest
import torch
import torch.nn.functional as F

from headswap.model import fused_loss
from headswap.model.fused_loss import linear_cross_entropy_sum


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("chunk_elements", [50, 1 << 24])
def test_fused_loss_and_gradients_equal_the_plain_ones_in_float64(
    has_bias: bool, chunk_elements: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(fused_loss.CHUNK_ELEMENTS, "cpu", chunk_elements)
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


def test_fused_loss_of_no_targets_is_zero_with_zero_gradients() -> None:
    hidden, weight = torch.randn(0, 8, requires_grad=True), torch.randn(17, 8, requires_grad=True)
    loss = linear_cross_entropy_sum(hidden, weight, None, torch.empty(0, dtype=torch.long))
    loss.backward()
    assert loss.item() == 0
    assert weight.grad is not None
    assert not weight.grad.any()


def test_fused_loss_survives_logits_that_overflow_exp() -> None:
    hidden, weight = torch.full((2, 4), 50.0, requires_grad=True), torch.eye(4, requires_grad=True)
    loss = linear_cross_entropy_sum(hidden * 10, weight, None, torch.tensor([0, 1]))
    assert loss.item() == pytest.approx(2 * torch.tensor(4.0).log().item(), rel=1e-5)


def test_fused_loss_under_autocast_is_near_the_full_precision_one() -> None:
    generator = torch.Generator().manual_seed(2)
    hidden, weight = torch.randn(64, 32, generator=generator), torch.randn(50, 32, generator=generator) * 0.1
    target = torch.randint(0, 50, (64,), generator=generator)
    full = linear_cross_entropy_sum(hidden, weight, None, target)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = linear_cross_entropy_sum(hidden, weight, None, target)
    assert half.dtype == torch.float32
    assert half.item() == pytest.approx(full.item(), rel=5e-3)
