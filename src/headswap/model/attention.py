"""Self-attention over a flat batch.

The attention module projects; the layout decides which tokens attend to which. `SequenceLayout` keeps sequences
separate and pads them only inside the kernel; generation has its own layout, with a cache.

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

from headswap.batches.batch import to_device
from headswap.kernels.policy import has_attention_per_sequence, has_matmul_attention, has_varlen_attention
from headswap.model.positions import Rotary
from headswap.model.shape import BaseShape

HEAD_MULTIPLE = 8  # required by flash attention

LONGEST_BY_MATMUL = 1024
"""Longest sequence for attention by matrix products; beyond it the S x S scores take too much memory."""
SHORT = 48
"""Sequences up to this length are padded together instead of one kernel call per sequence."""


class AttentionLayout(Protocol):
    """Which tokens attend to which, and the position of each token in its sequence."""

    positions_N: Tensor
    longest: int
    """An upper limit of the positions, known on the host."""

    def attend(self, layer: int, query_NHK: Tensor, key_NHK: Tensor, value_NHK: Tensor, *, dropout: float) -> Tensor:
        """The attention output of one layer, N x H x K."""


class SequenceLayout:
    """Sequences end to end; a token attends to its whole sequence or, if causal, to itself and earlier tokens."""

    def __init__(
        self, lengths: Sequence[int], lengths_B: Tensor, *, num_tokens: int, longest: int, causal: bool
    ) -> None:
        self.causal, self.lengths, self.device = causal, tuple(lengths), lengths_B.device
        self.longest = longest
        # Computed from the lengths on the device where they are needed.
        ends_B = torch.cumsum(lengths_B, 0)
        self.ends_B1 = F.pad(ends_B, (1, 0)).to(torch.int32)
        sequence_N = torch.repeat_interleave(lengths_B, output_size=num_tokens)
        self.positions_N = torch.arange(num_tokens, device=self.device) - (ends_B - lengths_B)[sequence_N]

    @cached_property
    def blocks(self) -> list["PaddedBlock"]:
        """Groups of adjacent sequences, one per kernel call."""
        parts = grouped_lengths(self.lengths) if has_attention_per_sequence(self.device) else [self.lengths]
        return [PaddedBlock(part, causal=self.causal, device=self.device) for part in parts]

    def attend(self, layer: int, query_NHK: Tensor, key_NHK: Tensor, value_NHK: Tensor, *, dropout: float) -> Tensor:
        """Attention without padding if the kernel is available, else block by block."""
        del layer  # the same for every layer
        if dropout == 0 and has_varlen_attention(query_NHK):
            return varlen_attention(query_NHK, key_NHK, value_NHK, self.ends_B1, self.longest, causal=self.causal)
        if len(self.blocks) == 1:
            return self.blocks[0].attend(query_NHK, key_NHK, value_NHK, dropout=dropout)
        sizes = [block.num_tokens for block in self.blocks]
        parts = zip(self.blocks, *(part.split(sizes) for part in (query_NHK, key_NHK, value_NHK)), strict=True)
        return torch.cat([block.attend(query, key, value, dropout=dropout) for block, query, key, value in parts])


class PaddedBlock:
    """Adjacent sequences that are padded to one length, for the kernel call only."""

    def __init__(self, lengths: Sequence[int], *, causal: bool, device: torch.device) -> None:
        self.causal, self.num_tokens = causal, sum(lengths)
        self.num_sequences, self.longest = len(lengths), max(lengths)
        self.is_rectangular = min(lengths) == self.longest
        self.key_mask_B11S: Tensor | None = None
        if self.is_rectangular:
            return
        lengths_B = torch.tensor(lengths)
        is_real_BS = torch.arange(self.longest).unsqueeze(0) < lengths_B.unsqueeze(1)
        self.slots_N = to_device(is_real_BS.flatten().nonzero()[:, 0], device)
        if not causal:  # causal queries never attend to right padding; bidirectional ones need a mask
            self.key_mask_B11S = to_device(is_real_BS[:, None, None, :], device)

    def attend(self, query_NHK: Tensor, key_NHK: Tensor, value_NHK: Tensor, *, dropout: float) -> Tensor:
        """Pad, run the kernel, remove the padding."""
        query, key, value = (self._pad(part) for part in (query_NHK, key_NHK, value_NHK))
        if has_matmul_attention(query) and self.longest <= LONGEST_BY_MATMUL:
            mixed_BHSK = self._by_matmul(query, key, value, dropout)
        else:
            mixed_BHSK = F.scaled_dot_product_attention(
                query, key, value, attn_mask=self.key_mask_B11S, dropout_p=dropout, is_causal=self.causal
            )
        mixed = mixed_BHSK.transpose(1, 2).flatten(0, 1)
        return mixed if self.is_rectangular else mixed.index_select(0, self.slots_N)

    def _by_matmul(self, query_BHSK: Tensor, key_BHSK: Tensor, value_BHSK: Tensor, dropout: float) -> Tensor:
        """Attention as two matrix products and a softmax."""
        scores_BHSS = (query_BHSK @ key_BHSK.transpose(-1, -2)).mul_(query_BHSK.shape[-1] ** -0.5)
        if self.causal:
            scores_BHSS += _square_mask(self.longest, scores_BHSS.dtype)
        elif self.key_mask_B11S is not None:
            bias_B11S = torch.zeros(self.key_mask_B11S.shape, dtype=scores_BHSS.dtype)
            scores_BHSS += bias_B11S.masked_fill_(~self.key_mask_B11S, float("-inf"))
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
    """0 on and below the diagonal, -inf above it, as in the lab."""
    return torch.full((length, length), float("-inf"), dtype=dtype).triu_(1)


def grouped_lengths(lengths: Sequence[int]) -> list[tuple[int, ...]]:
    """Group adjacent sequences for one kernel call: equal lengths, or so short that padding costs less than calls."""
    groups: list[list[int]] = []
    for length in lengths:
        if groups and (length == groups[-1][-1] or max(length, groups[-1][0]) <= SHORT):
            groups[-1].append(length)
        else:
            groups.append([length])
    return [tuple(group) for group in groups]


def varlen_attention(
    query_NHK: Tensor, key_NHK: Tensor, value_NHK: Tensor, ends_B1: Tensor, longest: int, *, causal: bool
) -> Tensor:
    """Attention within each sequence of a flat batch; head widths are padded to what the kernel supports."""
    attend, options = _varlen_kernel(causal)
    width = query_NHK.shape[-1]
    if padding := -width % HEAD_MULTIPLE:
        # Zeros change no product; the factor corrects the kernel's scale, which is that of the padded width.
        query_NHK = query_NHK * math.sqrt((width + padding) / width)
        query_NHK, key_NHK, value_NHK = (F.pad(part, (0, padding)) for part in (query_NHK, key_NHK, value_NHK))
    mixed_NHK = attend(query_NHK, key_NHK, value_NHK, ends_B1, ends_B1, longest, longest, **options)
    return mixed_NHK[..., :width]


@cache
def _varlen_kernel(causal: bool) -> tuple[Any, dict[str, Any]]:
    """PyTorch's kernel, and its arguments for causal attention, which depend on the version."""
    from torch.nn.attention.varlen import varlen_attn

    by_window = "window_size" in inspect.signature(varlen_attn).parameters
    return varlen_attn, {"window_size": (-1, 0 if causal else -1)} if by_window else {"is_causal": causal}


class SelfAttention(nn.Module):
    """Multi-head attention with one joint projection for query, key and value.

    The parts that act on each token separately (`project`, `read_out`) are separate from `mix`, so that they can be
    compiled.
    """

    def __init__(self, shape: BaseShape, layer: int) -> None:
        super().__init__()
        self.layer = layer
        self.num_heads, self.head_dim = shape.num_attention_heads, shape.head_dim
        self.num_shared_heads = shape.num_shared_heads
        self.dropout = shape.dropout if shape.attention_dropout is None else shape.attention_dropout
        joint = (self.num_heads + 2 * self.num_shared_heads) * self.head_dim
        self.qkv = nn.Linear(shape.hidden_size, joint, bias=shape.bias)
        self.output = nn.Linear(shape.hidden_size, shape.hidden_size, bias=shape.bias)

    def project(self, hidden_ND: Tensor, rotary: Rotary | None) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and value of every token."""
        heads = (self.num_heads, self.num_shared_heads, self.num_shared_heads)
        query, key, value = self.qkv(hidden_ND).view(-1, sum(heads), self.head_dim).split(heads, dim=1)
        if rotary is not None:
            query, key = rotary(query), rotary(key)
        if self.num_shared_heads < self.num_heads:  # each key and value is used by several queries
            key, value = (part.repeat_interleave(self.num_heads // self.num_shared_heads, 1) for part in (key, value))
        return query, key, value

    def mix(self, parts_NHK: tuple[Tensor, Tensor, Tensor], layout: AttentionLayout) -> Tensor:
        """Attention between the tokens, as the layout defines it."""
        return layout.attend(self.layer, *parts_NHK, dropout=self.dropout if self.training else 0.0)

    def read_out(self, mixed_NHK: Tensor) -> Tensor:
        """The output projection, one vector per token."""
        return self.output(mixed_NHK.flatten(1))
