"""Sampling the next token: pure functions of logits, settings and a uniform random number."""

from collections.abc import Sequence

import torch
from torch import Tensor

from headswap.inference.generate.config import SamplingSettings


def next_tokens(logits_BV: Tensor, settings: SamplingSettings, uniforms: Sequence[float]) -> list[int]:
    """The next token of each row."""
    if settings.temperature == 0:
        return logits_BV.argmax(1).tolist()
    return [next_token(logits_V, settings, uniform) for logits_V, uniform in zip(logits_BV, uniforms, strict=True)]


def next_token(logits_V: Tensor, settings: SamplingSettings, uniform: float) -> int:
    """The id of the next token; with a temperature above 0, `uniform` in [0, 1) is the random number used."""
    if settings.temperature == 0:
        return int(logits_V.argmax())
    probability_V = probabilities(logits_V, settings)
    cumulative_V = probability_V.cumsum(0)
    drawn = int(torch.searchsorted(cumulative_V, uniform * float(cumulative_V[-1]), right=True))
    return min(drawn, int(probability_V.nonzero()[-1]))


def probabilities(logits_V: Tensor, settings: SamplingSettings) -> Tensor:
    """The distribution to sample from, in float64 on the CPU."""
    scaled_V = logits_V.double().cpu() / settings.temperature
    if settings.top_k is not None and settings.top_k < len(scaled_V):
        smallest = scaled_V.topk(settings.top_k).values[-1]
        scaled_V = scaled_V.masked_fill(scaled_V < smallest, float("-inf"))
    probability_V = torch.softmax(scaled_V, dim=0)
    if settings.top_p is not None and settings.top_p < 1:
        ordered, index = probability_V.sort(descending=True, stable=True)
        is_beyond = ordered.cumsum(0) - ordered >= settings.top_p
        probability_V = probability_V.index_fill(0, index[is_beyond], 0.0)
    return probability_V / probability_V.sum()
