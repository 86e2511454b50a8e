"""The key-value cache of generation, as an attention layout: the base runs unchanged on the new tokens alone.

Room for all positions is taken once. A sequence is read in one go (`read_row`); then all sequences grow together by a
token a step (`grow`), whatever their lengths.

Shapes: N new tokens, B sequences, H heads, K head width, S positions.
"""

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor


class CacheLayout:
    """Growing sequences: new tokens see themselves and everything kept from before in their own sequence."""

    def __init__(self, num_layers: int, num_sequences: int, capacity: int, device: torch.device) -> None:
        self.capacity, self.device = capacity, device
        self.lengths = [0] * num_sequences
        self.keys: list[Tensor | None] = [None] * num_layers
        self.values: list[Tensor | None] = [None] * num_layers
        self.positions_N = torch.empty(0, dtype=torch.long)
        self._row: int | None = None
        self._steps_S = torch.arange(capacity, device=device)
        self._rows_B = torch.arange(num_sequences, device=device)
        self._mask_B11S: Tensor | None = None

    def read_row(self, row: int, count: int) -> None:
        """The next tokens are the `count` first of one sequence; what was kept of it is forgotten."""
        self._row, self.lengths[row] = row, count
        self.positions_N = self._steps_S[:count]

    def grow(self) -> None:
        """The next tokens are one of each sequence."""
        self._row = None
        self.lengths = [length + 1 for length in self.lengths]
        if min(self.lengths) == max(self.lengths):
            self.positions_N, self._mask_B11S = self._steps_S[self.lengths[0] - 1 : self.lengths[0]], None
            if len(self.lengths) > 1:
                self.positions_N = self.positions_N.expand(len(self.lengths))
        else:
            lengths_B = torch.tensor(self.lengths, device=self.device)
            self.positions_N = lengths_B - 1
            is_kept_BS = self._steps_S[: max(self.lengths)] < lengths_B.unsqueeze(1)
            self._mask_B11S = is_kept_BS[:, None, None, :]

    def keep(self, rows: Sequence[int]) -> None:
        """Go on with some of the sequences."""
        chosen = torch.tensor(rows, device=self.device)
        self.lengths = [self.lengths[row] for row in rows]
        self.keys = [None if part is None else part[chosen] for part in self.keys]
        self.values = [None if part is None else part[chosen] for part in self.values]
        self._rows_B = self._rows_B[: len(rows)]

    def attend(self, layer: int, query_NHK: Tensor, key_NHK: Tensor, value_NHK: Tensor, *, dropout: float) -> Tensor:
        """Keep the new keys and values, then let the new queries see all of their sequence."""
        assert dropout == 0, "generation runs in evaluation mode"
        keys_BHSK, values_BHSK = self._room(layer, key_NHK)
        if self._row is not None:
            count = len(key_NHK)
            query, key, value = (part.transpose(0, 1) for part in (query_NHK, key_NHK, value_NHK))
            keys_BHSK[self._row, :, :count], values_BHSK[self._row, :, :count] = key, value
            mixed = F.scaled_dot_product_attention(query[None], key[None], value[None], is_causal=count > 1)
            return mixed[0].transpose(0, 1)
        longest = max(self.lengths)
        if self._mask_B11S is None:
            keys_BHSK[:, :, longest - 1], values_BHSK[:, :, longest - 1] = key_NHK, value_NHK
        else:
            keys_BHSK[self._rows_B, :, self.positions_N] = key_NHK
            values_BHSK[self._rows_B, :, self.positions_N] = value_NHK
        mixed_BH1K = F.scaled_dot_product_attention(
            query_NHK.unsqueeze(2), keys_BHSK[:, :, :longest], values_BHSK[:, :, :longest], attn_mask=self._mask_B11S
        )
        return mixed_BH1K.squeeze(2)

    def _room(self, layer: int, like_NHK: Tensor) -> tuple[Tensor, Tensor]:
        keys, values = self.keys[layer], self.values[layer]
        if keys is None or values is None:
            heads, dim = like_NHK.shape[1:]
            # Zeros: a row that has not come so far is hidden from attention, and hiding needs a number to hide.
            keys, values = (like_NHK.new_zeros(len(self.lengths), heads, self.capacity, dim) for _ in range(2))
            self.keys[layer], self.values[layer] = keys, values
        return keys, values
