"""The key-value cache of generation, as an attention layout: the base runs unchanged, on the new tokens only.

Memory for all positions is allocated once. A prompt is read in one pass (`read_row`); then all sequences, of whatever
lengths, grow together by one token per step (`grow` in eager mode, `grow_on_device` in a CUDA graph).

Shapes: N new tokens, B sequences, H heads, K head width, S positions, X sequences times heads.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


class CacheLayout:
    """Growing sequences: a new token attends to itself and to all cached tokens of its sequence."""

    def __init__(self, num_layers: int, num_sequences: int, capacity: int, device: torch.device) -> None:
        self.capacity, self.device = capacity, device
        self.longest = capacity
        self.lengths = [0] * num_sequences
        self.keys: list[Tensor | None] = [None] * num_layers
        self.values: list[Tensor | None] = [None] * num_layers
        self.positions_N = torch.empty(0, dtype=torch.long)
        self._row: int | None = None
        self._longest = 0
        self._steps_S = torch.arange(capacity, device=device)
        self._mask_B11S: Tensor | None = None
        """Attention mask, -inf beyond the end of shorter sequences; None if all sequences have the same length."""
        self._slots_X: Tensor | None = None
        """Row of each new key in the flattened cache, for all sequences and heads (X = B x H)."""

    def read_row(self, row: int, count: int) -> None:
        """The next tokens are the first `count` of one sequence; its cached tokens are dropped."""
        self._row, self.lengths[row] = row, count
        self.positions_N = self._steps_S[:count]

    def grow(self) -> None:
        """The next tokens are the last of each sequence; `lengths` includes them."""
        self._row, self._longest = None, max(self.lengths)
        if min(self.lengths) == self._longest:
            self.positions_N, self._mask_B11S = self._steps_S[self._longest - 1 : self._longest], None
            if len(self.lengths) > 1:
                self.positions_N = self.positions_N.expand(len(self.lengths))
        else:
            self._set_mask(torch.tensor(self.lengths, device=self.device))

    def grow_on_device(self, lengths_B: Tensor) -> None:
        """The same with lengths that only the device knows: attention covers all allocated positions."""
        self._row, self._longest = None, self.capacity
        self._set_mask(lengths_B)

    def _set_mask(self, lengths_B: Tensor) -> None:
        """Set positions and attention mask for sequences of different lengths."""
        self.positions_N, self._slots_X = lengths_B - 1, None
        is_empty_BS = self._steps_S[: self._longest] >= lengths_B.unsqueeze(1)
        mask_BS = torch.zeros(is_empty_BS.shape, device=self.device).masked_fill_(is_empty_BS, float("-inf"))
        self._mask_B11S = mask_BS[:, None, None, :]

    def keep(self, rows: Sequence[int]) -> None:
        """Keep some of the sequences and drop the others."""
        chosen = torch.tensor(rows, device=self.device)
        self.lengths = [self.lengths[row] for row in rows]
        self.keys = [None if part is None else part[chosen] for part in self.keys]
        self.values = [None if part is None else part[chosen] for part in self.values]

    def attend(self, layer: int, query_NHK: Tensor, key_NHK: Tensor, value_NHK: Tensor, *, dropout: float) -> Tensor:
        """Append the new keys and values, then attend to the whole sequence of each new query."""
        assert dropout == 0, "generation runs in evaluation mode"
        keys_BHSK, values_BHSK = self._layer_cache(layer, key_NHK)
        if self._row is not None:
            count = len(key_NHK)
            query, key, value = (part.transpose(0, 1) for part in (query_NHK, key_NHK, value_NHK))
            keys_BHSK[self._row, :, :count], values_BHSK[self._row, :, :count] = key, value
            mixed = F.scaled_dot_product_attention(query[None], key[None], value[None], is_causal=count > 1)
            return mixed[0].transpose(0, 1)
        longest = self._longest
        if self._mask_B11S is None:
            keys_BHSK[:, :, longest - 1], values_BHSK[:, :, longest - 1] = key_NHK, value_NHK
        else:
            slots_X = self._slots(key_NHK.shape[1])
            keys_BHSK.view(-1, key_NHK.shape[2]).index_copy_(0, slots_X, key_NHK.flatten(0, 1))
            values_BHSK.view(-1, key_NHK.shape[2]).index_copy_(0, slots_X, value_NHK.flatten(0, 1))
            self._mask_B11S = self._mask_B11S.to(query_NHK.dtype)
        mixed_BH1K = F.scaled_dot_product_attention(
            query_NHK.unsqueeze(2), keys_BHSK[:, :, :longest], values_BHSK[:, :, :longest], attn_mask=self._mask_B11S
        )
        return mixed_BH1K.squeeze(2)

    def _slots(self, num_heads: int) -> Tensor:
        if self._slots_X is None:
            firsts = torch.arange(len(self.lengths) * num_heads, device=self.device) * self.capacity
            self._slots_X = firsts + self.positions_N.repeat_interleave(num_heads)
        return self._slots_X

    def _layer_cache(self, layer: int, like_NHK: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = self.keys[layer], self.values[layer]
        if keys is None or values is None:
            heads, dim = like_NHK.shape[1:]
            # Zeros, since masked positions must hold finite numbers.
            keys, values = (like_NHK.new_zeros(len(self.lengths), heads, self.capacity, dim) for _ in range(2))
            self.keys[layer], self.values[layer] = keys, values
        return keys, values
