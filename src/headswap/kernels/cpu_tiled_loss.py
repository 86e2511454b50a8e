"""Head and cross entropy on a CPU: tiles of logits that fit the caches, one exponential per logit, no padding.

The logits of a chunk of targets are computed tile by tile over the vocabulary. Each tile stores its exponentials
relative to the highest logit seen so far (online softmax, Milakov and Gimelshein 2018). Once the chunk's total is
known, one factor per row remains; it is multiplied into the narrow side of the matrix products, which is cheaper than
into the logits. Matrix products run in the requested dtype, sums and exponentials in float32 or more.

Shapes: T targets, D hidden width, V vocabulary, C targets of one chunk, W vocabulary entries of one tile.
"""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

CHUNK, TILE = 512, 2048
MOST_KEPT = 1 << 24
"""Most logits kept per chunk; above it a chunk has half the targets and its tiles twice the width."""
FARTHEST = 60.0
"""A tile's distance below the log total is clamped to this (in nats): 1 + exp(-60) is 1 in every dtype used here."""


@dataclass(frozen=True, slots=True)
class Gradients:
    """Gradients of the summed loss."""

    hidden_TD: Tensor
    weight_VD: Tensor
    bias_V: Tensor


def tiled_cross_entropy(
    hidden_TD: Tensor, weight_VD: Tensor, bias_V: Tensor | None, target_T: Tensor, *, dtype: torch.dtype
) -> tuple[Tensor, Gradients]:
    """The summed loss and its gradients, in float32 or more."""
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    size, tile = (CHUNK, TILE) if CHUNK * len(weight_VD) <= MOST_KEPT else (CHUNK // 2, TILE * 2)
    # One large allocation for the head and a chunk's logits: the C library returns it to the system, small ones not.
    num_copied = 0 if weight_VD.dtype == dtype else weight_VD.numel()
    space = torch.empty(num_copied + min(size, len(target_T)) * len(weight_VD), dtype=dtype)
    weight = space[:num_copied].view(weight_VD.shape).copy_(weight_VD) if num_copied else weight_VD
    hidden, buffer = hidden_TD.to(dtype), space[num_copied:]
    gradients = Gradients(
        torch.zeros(hidden.shape, dtype=wide),
        torch.zeros(weight.shape, dtype=wide),
        torch.zeros(len(weight) if bias_V is not None else 0, dtype=wide),
    )
    total = torch.zeros((), dtype=wide)
    for start in range(0, len(target_T), size):
        rows = slice(start, start + size)
        chunk = _Chunk(hidden[rows], weight, bias_V, target_T[rows], wide=wide, tile=tile, buffer=buffer)
        total += chunk.loss
        chunk.add_gradients(gradients, rows)
    return total, gradients


def tiled_loss(
    hidden_TD: Tensor, weight_VD: Tensor, bias_V: Tensor | None, target_T: Tensor, *, dtype: torch.dtype
) -> Tensor:
    """The summed loss alone."""
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    hidden, weight = hidden_TD.to(dtype), weight_VD.to(dtype)
    total = torch.zeros((), dtype=wide)
    for start in range(0, len(target_T), CHUNK):
        rows = slice(start, start + CHUNK)
        total += _Chunk(hidden[rows], weight, bias_V, target_T[rows], wide=wide, tile=TILE, buffer=None).loss
    return total


class _Chunk:
    """The loss of some targets over the whole vocabulary."""

    def __init__(
        self,
        hidden_CD: Tensor,
        weight_VD: Tensor,
        bias_V: Tensor | None,
        target_C: Tensor,
        *,
        wide: torch.dtype,
        tile: int,
        buffer: Tensor | None,
    ) -> None:
        """With a buffer for C x V numbers the tiles are kept in it for the gradients."""
        self.hidden_CD, self.weight_VD, self.wide, self.tile = hidden_CD, weight_VD, wide, tile
        self.places = range(0, len(weight_VD), tile)
        self.tiles: list[Tensor] = []
        self.tops: list[Tensor] = []
        # Targets in ascending order: those of one tile are consecutive.
        self.order_C = torch.argsort(target_C, stable=True)
        ends = torch.searchsorted(target_C[self.order_C], torch.tensor([*self.places, len(weight_VD)])).tolist()
        self.target_slices = [slice(begin, end) for begin, end in pairwise(ends)]
        self.target_C = target_C
        count = len(target_C)
        self.picked_C = torch.zeros(count, dtype=wide)
        top_C1 = torch.full((count, 1), float("-inf"), dtype=wide)
        total_C1 = torch.zeros(count, 1, dtype=wide)
        space = torch.empty(count, min(tile, len(weight_VD)), dtype=wide)
        for number, place in enumerate(self.places):
            words = slice(place, place + tile)
            size = len(weight_VD[words])
            kept = None if buffer is None else buffer[count * place :][: count * size].view(count, size)
            tile_CW = torch.mm(hidden_CD, weight_VD[words].T, out=kept)
            logits_CW = tile_CW if tile_CW.dtype == wide else space[:, : tile_CW.shape[1]].copy_(tile_CW)
            if bias_V is not None:
                logits_CW += bias_V[words]
            rows, columns = self._targets_in(number)
            self.picked_C[rows] = logits_CW[rows, columns]
            before_C1, top_C1 = top_C1, torch.maximum(top_C1, logits_CW.amax(1, keepdim=True))
            logits_CW.sub_(top_C1).exp_()
            total_C1 = total_C1 * (before_C1 - top_C1).exp() + logits_CW.sum(1, keepdim=True)
            if buffer is not None:
                self.tiles.append(tile_CW if tile_CW.dtype == wide else tile_CW.copy_(logits_CW))
                self.tops.append(top_C1)
        self.log_total_C1 = top_C1 + total_C1.log()
        self.loss = (self.log_total_C1[:, 0] - self.picked_C).sum()

    def add_gradients(self, gradients: Gradients, rows: slice) -> None:
        """Add the gradients of this chunk: the errors (softmax, minus one at the target) times vectors and weights."""
        dtype, hidden = self.hidden_CD.dtype, self.hidden_CD.to(self.wide)
        for number, place in enumerate(self.places):
            words, errors_CW = slice(place, place + self.tile), self.tiles[number]
            below_C1 = (self.log_total_C1 - self.tops[number]).clamp_(max=FARTHEST)
            factor_C1 = below_C1.neg().exp_()
            at, columns = self._targets_in(number)
            own = (self.picked_C[at] - self.tops[number][at, 0]).exp_() - below_C1[at, 0].exp_()
            errors_CW[at, columns] = own.to(dtype)
            gradients.hidden_TD[rows].add_((errors_CW @ self.weight_VD[words]).to(self.wide).mul_(factor_C1))
            gradients.weight_VD[words].add_(errors_CW.T @ (hidden * factor_C1).to(dtype))
            if len(gradients.bias_V):
                gradients.bias_V[words].add_(torch.mv(errors_CW.T, factor_C1[:, 0].to(dtype)))

    def _targets_in(self, number: int) -> tuple[Tensor, Tensor]:
        """Rows whose target is in a tile, and the column of each target in it."""
        rows = self.order_C[self.target_slices[number]]
        return rows, self.target_C[rows] - self.places[number]
