"""Sinusoidal and rotary positions. Learned position embeddings are part of the base.

Shapes: N tokens of a flat batch, D hidden width, H attention heads, K head width. Positions count from 0 within each
sequence.
"""

import math
from functools import lru_cache

import torch
from torch import Tensor


@lru_cache(maxsize=32)
def sinusoidal_table(length: int, dim: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Sines on the even dimensions and cosines on the odd ones, base 10000; cached per device."""
    angle_LK = _angles(length, dim)
    table_LD = torch.stack((angle_LK.sin(), angle_LK.cos()), dim=2).flatten(1)
    return table_LD.to(device, dtype)


@lru_cache(maxsize=32)
def _rotation_table(
    length: int, dim: int, theta: float, device: torch.device, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    angle_LK = _angles(length, dim, theta)
    return angle_LK.cos().to(device, dtype), angle_LK.sin().to(device, dtype)


def _angles(length: int, dim: int, theta: float = 10_000.0) -> Tensor:
    frequency_K = torch.exp(torch.arange(0, dim, 2, dtype=torch.float64) * (-math.log(theta) / dim))
    return torch.outer(torch.arange(length, dtype=torch.float64), frequency_K)


class Rotary:
    """Rotates query and key vectors by an angle proportional to the position: scores depend on distances only."""

    def __init__(self, positions_N: Tensor, *, dim: int, length: int, theta: float, dtype: torch.dtype) -> None:
        cosine_LK, sine_LK = _rotation_table(length, dim, theta, positions_N.device, dtype)
        self.cosine_N1K = cosine_LK[positions_N].unsqueeze(1)
        self.sine_N1K = sine_LK[positions_N].unsqueeze(1)

    def __call__(self, vector_NHK: Tensor) -> Tensor:
        """The rotated vectors; the two halves of a head hold the two coordinates of each plane."""
        first, second = vector_NHK.to(self.cosine_N1K.dtype).chunk(2, dim=-1)
        rotated = torch.cat(
            (first * self.cosine_N1K - second * self.sine_N1K, second * self.cosine_N1K + first * self.sine_N1K), dim=-1
        )
        return rotated.to(vector_NHK.dtype)
