"""Attention block by block and by matrix products, compared with one padded call of the fused kernel."""

from collections.abc import Iterator

import pytest
import torch

from headswap.batches.batch import flat_batch
from headswap.kernels import policy as kernels
from headswap.model.attention import grouped_lengths
from headswap.model.text_model import build_model
from tiny import layout_of, random_sequences, tiny_model_shape

LENGTHS = {
    "ragged": [70, 3, 120, 49, 5, 9, 60],
    "short": [4, 1, 9, 30],
    "equal": [64, 64, 64],
    "one": [90],
}


@pytest.fixture
def restored_kernels() -> Iterator[None]:
    """Allows fast kernels again after a test."""
    yield
    kernels.allow_fast_kernels(True)


def attention_and_gradients(
    lengths: list[int], *, causal: bool, is_fast: bool, dtype: torch.dtype
) -> list[torch.Tensor]:
    """The output of attention, and the gradients of its inputs."""
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


@pytest.mark.usefixtures("restored_kernels")
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kind", LENGTHS)
def test_blocks_without_padding_equal_one_padded_call(kind: str, causal: bool) -> None:
    blocks, padded = (
        attention_and_gradients(LENGTHS[kind], causal=causal, is_fast=is_fast, dtype=torch.float64)
        for is_fast in (True, False)
    )
    for one, other in zip(blocks, padded, strict=True):
        torch.testing.assert_close(one, other, atol=1e-12, rtol=1e-10)


@pytest.mark.usefixtures("restored_kernels")
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kind", LENGTHS)
def test_attention_by_matrix_products_in_bf16_is_close_to_float64(kind: str, causal: bool) -> None:
    half = attention_and_gradients(LENGTHS[kind], causal=causal, is_fast=True, dtype=torch.bfloat16)
    full = attention_and_gradients(LENGTHS[kind], causal=causal, is_fast=False, dtype=torch.float64)
    for one, other in zip(half, full, strict=True):
        assert (one.double() - other).norm() / other.norm() < 0.02


def test_adjacent_sequences_of_equal_or_short_length_are_grouped() -> None:
    assert grouped_lengths([70, 70, 3, 9, 48, 49, 49, 2, 80]) == [(70, 70), (3, 9, 48), (49, 49), (2,), (80,)]


@torch.no_grad()
def test_shared_keys_and_values_equal_their_copies_for_every_head() -> None:
    shared = build_model(tiny_model_shape("llama", num_attention_heads=4, num_key_value_heads=2), seed=1)
    whole = build_model(tiny_model_shape("llama", num_attention_heads=4), seed=1)
    state, width = shared.state_dict(), 8
    for name in [name for name in state if name.endswith("qkv.weight")]:
        query, key, value = state[name].split((4 * width, 2 * width, 2 * width))
        copies = [part.view(2, width, -1).repeat_interleave(2, 0).flatten(0, 1) for part in (key, value)]
        state[name] = torch.cat((query, *copies))
    whole.load_state_dict(state)
    batch = flat_batch(random_sequences([5, 9]))
    torch.testing.assert_close(shared(batch), whole(batch), atol=1e-6, rtol=0)
