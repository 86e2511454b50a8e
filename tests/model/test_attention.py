"""Attention block by block and by plain products against one padded call of the fused kernel."""

from collections.abc import Iterator

import pytest
import torch

from headswap.kernels import policy as kernels
from headswap.model.attention import alike
from tiny import layout_of

LENGTHS = {
    "ragged": [70, 3, 120, 49, 5, 9, 60],
    "short": [4, 1, 9, 30],
    "equal": [64, 64, 64],
    "one": [90],
}


@pytest.fixture
def forbid() -> Iterator[None]:
    """Leaves the process as it was."""
    yield
    kernels.allow_fast_kernels(True)


def mixed(lengths: list[int], *, causal: bool, is_fast: bool, dtype: torch.dtype) -> list[torch.Tensor]:
    """What attention gives, and the gradients of its inputs."""
    kernels.allow_fast_kernels(is_fast)
    generator = torch.Generator().manual_seed(5)
    parts = [
        torch.randn(sum(lengths), 2, 12, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()
        for _ in range(3)
    ]
    layout = layout_of(lengths, causal=causal)
    output = layout.attend(0, *parts, dropout=0.0)
    weights = torch.randn(output.shape, generator=generator, dtype=torch.float64).to(dtype)
    (output * weights).sum().backward()
    return [output.detach(), *(part.grad for part in parts)]


@pytest.mark.usefixtures("forbid")
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kind", LENGTHS)
def test_blocks_without_padding_equal_one_padded_call(kind: str, causal: bool) -> None:
    blocks, padded = (
        mixed(LENGTHS[kind], causal=causal, is_fast=is_fast, dtype=torch.float64) for is_fast in (True, False)
    )
    for one, other in zip(blocks, padded, strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=1e-10)


@pytest.mark.usefixtures("forbid")
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kind", LENGTHS)
def test_attention_by_products_in_bf16_is_near_the_one_in_float64(kind: str, causal: bool) -> None:
    half = mixed(LENGTHS[kind], causal=causal, is_fast=True, dtype=torch.bfloat16)
    full = mixed(LENGTHS[kind], causal=causal, is_fast=False, dtype=torch.float64)
    for one, other in zip(half, full, strict=True):
        assert (one.double() - other).norm() / other.norm() < 0.02


def test_neighbours_join_where_they_are_equal_or_short() -> None:
    assert alike([70, 70, 3, 9, 48, 49, 49, 2, 80]) == [(70, 70), (3, 9, 48), (49, 49), (2,), (80,)]
