"""The floor: the operations and bytes that a row needs at least, and the measured peak rates of this machine."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch

from headswap.model.shape import BaseShape
from headswap.pretraining.run_cost import forward_and_backward


@dataclass(frozen=True)
class Ceiling:
    """Measured operations and bytes per second."""

    flops_fp32: float
    flops_bf16: float
    bytes_copied: float


@dataclass(frozen=True)
class Cost:
    """Operations of some work, and the bytes of weights that it must read or write."""

    flops: float
    bytes: float

    @classmethod
    def of_step(cls, base: BaseShape, tokens: int, *, length: int, targets: int, causal: bool = True) -> "Cost":
        """A training step: 6 operations per weight and token, attention, and AdamW's 28 bytes per weight."""
        dim, inner = base.hidden_size, base.intermediate_size
        layer = 4 * dim**2 + 2 * dim * inner
        flops = forward_and_backward(base, tokens, length=length, targets=targets, is_causal=causal)
        weights = layer * base.num_hidden_layers + base.vocab_size * dim * (1 if base.tied_head else 2)
        return cls(flops, 28.0 * weights)

    @classmethod
    def of_reading(cls, base: BaseShape, lengths: list[int]) -> "Cost":
        """A forward pass without a head, each sequence once."""
        dim, layers = base.hidden_size, base.num_hidden_layers
        layer = 4 * dim**2 + 2 * dim * base.intermediate_size
        flops = sum(length * (2 * layer + 2 * dim * length) * layers for length in lengths)
        return cls(float(flops), 4.0 * layer * layers)

    def sentence(self, device: str, units: int, unit: str = "tokens") -> str:
        """The floor as a sentence, with the speed that it allows."""
        ceiling = floor_of(device)
        seconds = {name: self.flops / rate for name, rate in _rates(ceiling).items()}
        moved = self.bytes / ceiling.bytes_copied
        rates = ", ".join(f"{units / (each + moved):,.0f} {unit}/s in {name}" for name, each in seconds.items())
        return f"{self.flops / 1e9:,.1f} GFLOP and {self.bytes / 1e6:,.0f} MB: at most {rates}"


def _rates(ceiling: Ceiling) -> dict[str, float]:
    return {"fp32": ceiling.flops_fp32, "bf16": ceiling.flops_bf16}


@cache
def floor_of(device: str) -> Ceiling:
    """Measured once per process: the fastest square products in both formats, and a copy of 256 MB (1 GB on a GPU)."""
    flops = {torch.float32: 0.0, torch.bfloat16: 0.0}
    for size in (4096, 8192) if device == "cuda" else (384, 768, 1536):
        for dtype in flops:
            one, other = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
            seconds = _seconds(lambda one=one, other=other: one @ other, device)
            flops[dtype] = max(flops[dtype], 2 * size**3 / seconds)
    numbers = torch.empty(1 << (28 if device == "cuda" else 26), device=device)
    into = torch.empty_like(numbers)
    moved = 2 * numbers.numel() * 4 / _seconds(lambda: into.copy_(numbers), device)
    return Ceiling(flops[torch.float32], flops[torch.bfloat16], moved)


def _seconds(work: Callable[[], object], device: str) -> float:
    """The shortest of several times: other work on the machine can only slow it down."""
    from .contest import wait

    found = []
    for _ in range(12):
        wait(device)
        start = time.perf_counter()
        work()
        wait(device)
        found.append(time.perf_counter() - start)
    return min(found)
