"""Pooling: one vector per sequence from the vectors of its tokens.

Shapes: N tokens, B sequences, D hidden width.
"""

import torch
from torch import Tensor

from headswap.model.shape import FORMER_POOLINGS, Pooling


def pool(hidden_ND: Tensor, lengths_B: Tensor, pooling: Pooling) -> Tensor:
    """One vector per sequence, B x P."""
    pooling = FORMER_POOLINGS.get(pooling, pooling)
    ends_B = torch.cumsum(lengths_B, 0)
    if pooling == "last":
        return hidden_ND[ends_B - 1]
    if pooling == "first":
        return hidden_ND[ends_B - lengths_B]
    wide_ND = hidden_ND if hidden_ND.dtype == torch.float64 else hidden_ND.float()
    if pooling == "weighted-mean":
        begins_N = torch.repeat_interleave(ends_B - lengths_B, lengths_B, output_size=len(hidden_ND))
        positions_N = torch.arange(1, len(hidden_ND) + 1, device=hidden_ND.device) - begins_N
        weights_N = positions_N / torch.repeat_interleave((lengths_B + 1) / 2, lengths_B, output_size=len(hidden_ND))
        wide_ND, pooling = wide_ND * weights_N.to(wide_ND.dtype).unsqueeze(1), "mean"
    # unsafe=True skips a check of the lengths that would make the host wait; a batch's lengths are always consistent.
    reduced = [torch.segment_reduce(wide_ND, kind, lengths=lengths_B, unsafe=True) for kind in pooling.split("+")]
    return torch.cat(reduced, dim=1)
