"""Where a token stands: sinusoidal and rotary positions. Learned ones are a table of the base.

Shapes: N tokens of a flat batch, D hidden width, H attention heads, K head width. Positions count from 0 within each
sequence, so a flat batch needs no padding to number its tokens.
"""

import math
from functools import lru_cache

import torch
from torch import Tensor


@lru_cache(maxsize=32)
def sinusoidal_table(length: int, dim: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Sines on the even dimensions and cosines on the odd ones, base 10000; kept on each device it was asked for."""
    angle_LK = _angles(length, dim)
    table_LD = torch.stack((angle_LK.sin(), angle_LK.cos()), dim=2).flatten(1)
    return table_LD.to(device, dtype)


@lru_cache(maxsize=32)
def _rotation_table(length: int, dim: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    angle_LK = _angles(length, dim)
    return angle_LK.cos().to(device, dtype), angle_LK.sin().to(device, dtype)


def _angles(length: int, dim: int) -> Tensor:
    frequency_K = torch.exp(torch.arange(0, dim, 2, dtype=torch.float64) * (-math.log(10_000.0) / dim))
    return torch.outer(torch.arange(length, dtype=torch.float64), frequency_K)


class Rotary:
    """Turns query and key vectors by an angle that grows with the position, so that scores see distances only."""

    def __init__(self, positions_N: Tensor, *, dim: int, length: int, dtype: torch.dtype) -> None:
        cosine_LK, sine_LK = _rotation_table(length, dim, positions_N.device, dtype)
        self.cosine_N1K = cosine_LK[positions_N].unsqueeze(1)
        self.sine_N1K = sine_LK[positions_N].unsqueeze(1)

    def __call__(self, vector_NHK: Tensor) -> Tensor:
        """The vectors, turned; the first and second half of a head hold the two coordinates of each plane."""
        first, second = vector_NHK.to(self.cosine_N1K.dtype).chunk(2, dim=-1)
        turned = torch.cat(
            (first * self.cosine_N1K - second * self.sine_N1K, second * self.cosine_N1K + first * self.sine_N1K), dim=-1
        )
        return turned.to(vector_NHK.dtype)
