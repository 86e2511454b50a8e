"""Self-attention over a flat batch.

The attention module projects and mixes; *how* tokens see each other is the layout's business. `SequenceLayout` keeps
sequences apart and pads them only inside the kernel; the generator brings a layout of its own that adds a cache.

Shapes: N tokens of all sequences end to end, D hidden width, H heads, K head width, B sequences (B1: one more), S
longest sequence.
"""

import inspect
import math
from collections.abc import Sequence
from functools import cache, cached_property, lru_cache
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headswap.batches.batch import sent
from headswap.kernels.policy import has_cheap_calls, has_fast_products, has_ragged_attention
from headswap.model.positions import Rotary
from headswap.model.shape import BaseShape

HEAD_MULTIPLE = 8  # of flash attention

LONGEST_BY_PRODUCTS = 1024
"""Beyond it the square of scores would take more memory than it saves time."""
SHORT = 48
"""Tokens up to which sequences are padded together where each could have a call of its own."""


class AttentionLayout(Protocol):
    """Which token may see which, and where each token stands in its sequence."""

    positions_N: Tensor

    def attend(self, layer: int, query_NHK: Tensor, key_NHK: Tensor, value_NHK: Tensor, *, dropout: float) -> Tensor:
        """The mixed values, N x H x K, for one layer."""


class SequenceLayout:
    """Sequences end to end; a token sees its own sequence: all of it, or (causal) itself and what is before it."""

    def __init__(
        self, lengths: Sequence[int], lengths_B: Tensor, *, num_tokens: int, longest: int, causal: bool
    ) -> None:
        self.causal, self.lengths, self.device = causal, tuple(lengths), lengths_B.device
        self.longest = longest
        # What follows from the lengths is computed where it is needed.
        ends_B = torch.cumsum(lengths_B, 0)
        self.ends_B1 = F.pad(ends_B, (1, 0)).to(torch.int32)
        sequence_N = torch.repeat_interleave(lengths_B, output_size=num_tokens)
        self.positions_N = torch.arange(num_tokens, device=self.device) - (ends_B - lengths_B)[sequence_N]

    @cached_property
    def blocks(self) -> list["PaddedBlock"]:
        """Neighbours that one call of a plain kernel takes."""
        parts = alike(self.lengths) if has_cheap_calls(self.device) else [self.lengths]
        return [PaddedBlock(part, causal=self.causal, device=self.device) for part in parts]

    def attend(self, layer: int, query_NHK: Tensor, key_NHK: Tensor, value_NHK: Tensor, *, dropout: float) -> Tensor:
        """Without padding where a kernel can; else block by block."""
        del layer  # every layer sees the same sequences
        if dropout == 0 and has_ragged_attention(query_NHK):
            return ragged_attention(query_NHK, key_NHK, value_NHK, self.ends_B1, self.longest, causal=self.causal)
        if len(self.blocks) == 1:
            return self.blocks[0].attend(query_NHK, key_NHK, value_NHK, dropout=dropout)
        sizes = [block.num_tokens for block in self.blocks]
        parts = zip(self.blocks, *(part.split(sizes) for part in (query_NHK, key_NHK, value_NHK)), strict=True)
        return torch.cat([block.attend(query, key, value, dropout=dropout) for block, query, key, value in parts])


class PaddedBlock:
    """Neighbouring sequences that are padded to one length inside the kernel, and only there."""

    def __init__(self, lengths: Sequence[int], *, causal: bool, device: torch.device) -> None:
        self.causal, self.num_tokens = causal, sum(lengths)
        self.num_sequences, self.longest = len(lengths), max(lengths)
        self.is_rectangular = min(lengths) == self.longest
        self.key_mask_B11S: Tensor | None = None
        if self.is_rectangular:
            return
        lengths_B = torch.tensor(lengths)
        is_real_BS = torch.arange(self.longest).unsqueeze(0) < lengths_B.unsqueeze(1)
        self.slots_N = sent(is_real_BS.flatten().nonzero()[:, 0], device)
        if not causal:  # right padding is never seen by a causal query; a bidirectional one must be told
            self.key_mask_B11S = sent(is_real_BS[:, None, None, :], device)

    def attend(self, query_NHK: Tensor, key_NHK: Tensor, value_NHK: Tensor, *, dropout: float) -> Tensor:
        """Pad, run the fused kernel, take the padding out again."""
        query, key, value = (self._pad(part) for part in (query_NHK, key_NHK, value_NHK))
        if has_fast_products(query) and self.longest <= LONGEST_BY_PRODUCTS:
            mixed_BHSK = self._by_products(query, key, value, dropout)
        else:
            mixed_BHSK = F.scaled_dot_product_attention(
                query, key, value, attn_mask=self.key_mask_B11S, dropout_p=dropout, is_causal=self.causal
            )
        mixed = mixed_BHSK.transpose(1, 2).flatten(0, 1)
        return mixed if self.is_rectangular else mixed.index_select(0, self.slots_N)

    def _by_products(self, query_BHSK: Tensor, key_BHSK: Tensor, value_BHSK: Tensor, dropout: float) -> Tensor:
        """Attention as two plain products and a softmax."""
        scores_BHSS = (query_BHSK @ key_BHSK.transpose(-1, -2)).mul_(query_BHSK.shape[-1] ** -0.5)
        if self.causal:
            scores_BHSS += _square_mask(self.longest, scores_BHSS.dtype)
        elif self.key_mask_B11S is not None:
            hidden_B11S = torch.zeros(self.key_mask_B11S.shape, dtype=scores_BHSS.dtype)
            scores_BHSS += hidden_B11S.masked_fill_(~self.key_mask_B11S, float("-inf"))
        weights_BHSS = torch.softmax(scores_BHSS, dim=-1)
        return F.dropout(weights_BHSS, dropout) @ value_BHSK if dropout else weights_BHSS @ value_BHSK

    def _pad(self, part_NHK: Tensor) -> Tensor:
        num_heads, dim = part_NHK.shape[1:]
        if not self.is_rectangular:
            empty = part_NHK.new_zeros(self.num_sequences * self.longest, num_heads, dim)
            part_NHK = empty.index_copy(0, self.slots_N, part_NHK)
        return part_NHK.view(self.num_sequences, self.longest, num_heads, dim).transpose(1, 2)


@lru_cache(maxsize=8)
def _square_mask(length: int, dtype: torch.dtype) -> Tensor:
    """0 on and below the diagonal, -inf above it, as the lab has it."""
    return torch.full((length, length), float("-inf"), dtype=dtype).triu_(1)


def alike(lengths: Sequence[int]) -> list[tuple[int, ...]]:
    """Neighbours that one call takes: of equal length, or so short that a call each would cost more than padding."""
    groups: list[list[int]] = []
    for length in lengths:
        if groups and (length == groups[-1][-1] or max(length, groups[-1][0]) <= SHORT):
            groups[-1].append(length)
        else:
            groups.append([length])
    return [tuple(group) for group in groups]


def ragged_attention(
    query_NHK: Tensor, key_NHK: Tensor, value_NHK: Tensor, ends_B1: Tensor, longest: int, *, causal: bool
) -> Tensor:
    """Attention inside each sequence of a flat batch; a head is padded to the width that the kernel takes."""
    attend, options = _ragged_kernel(causal)
    width = query_NHK.shape[-1]
    if padding := -width % HEAD_MULTIPLE:
        # Zeros change no product; the kernel's scale, that of the padded width, is made up for.
        query_NHK = query_NHK * math.sqrt((width + padding) / width)
        query_NHK, key_NHK, value_NHK = (F.pad(part, (0, padding)) for part in (query_NHK, key_NHK, value_NHK))
    mixed_NHK = attend(query_NHK, key_NHK, value_NHK, ends_B1, ends_B1, longest, longest, **options)
    return mixed_NHK[..., :width]


@cache
def _ragged_kernel(causal: bool) -> tuple[Any, dict[str, Any]]:
    """PyTorch's kernel and how this version of it is asked for causal attention."""
    from torch.nn.attention.varlen import varlen_attn

    by_window = "window_size" in inspect.signature(varlen_attn).parameters
    return varlen_attn, {"window_size": (-1, 0 if causal else -1)} if by_window else {"is_causal": causal}


class SelfAttention(nn.Module):
    """Multi-head attention with one joint projection for query, key and value.

    What is done token by token (`project`, `read_out`) stands apart from the mixing between them, so that a compiler
    can take it.
    """

    def __init__(self, shape: BaseShape, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.num_heads, self.head_dim = shape.num_attention_heads, shape.head_dim
        self.dropout = shape.dropout if shape.attention_dropout is None else shape.attention_dropout
        self.qkv = nn.Linear(shape.hidden_size, 3 * shape.hidden_size, bias=shape.bias)
        self.output = nn.Linear(shape.hidden_size, shape.hidden_size, bias=shape.bias)

    def project(self, hidden_ND: Tensor, rotary: Rotary | None) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value of every token."""
        query, key, value = self.qkv(hidden_ND).view(-1, 3, self.num_heads, self.head_dim).unbind(1)
        return (query, key, value) if rotary is None else (rotary(query), rotary(key), value)

    def mix(self, parts_NHK: tuple[Tensor, Tensor, Tensor], layout: AttentionLayout) -> Tensor:
        """Move information between the tokens that the layout lets see each other."""
        return layout.attend(self.layer, *parts_NHK, dropout=self.dropout if self.training else 0.0)

    def read_out(self, mixed_NHK: Tensor) -> Tensor:
        """What the heads found, as one vector a token."""
        return self.output(mixed_NHK.flatten(1))
