"""Which fast kernels this process may use, and which are available.

A kernel changes only speed and rounding; where one is missing, the plain computation is used. The choice belongs to the
process, like PyTorch's number of threads or its deterministic mode, and is made once per run (`Machine`).
"""

from functools import cache

import torch
from torch import Tensor

WIDEST_HEAD = 256  # limit of flash attention

_allowed = True


def allow_fast_kernels(allowed: bool) -> None:
    """Allow or forbid fast kernels in this process."""
    global _allowed
    _allowed = allowed


def has_varlen_attention(query_NHK: Tensor) -> bool:
    """Whether attention over sequences of different lengths runs without padding: flash attention on CUDA."""
    return (
        _allowed
        and query_NHK.is_cuda
        and query_NHK.dtype in (torch.bfloat16, torch.float16)
        and query_NHK.shape[-1] <= WIDEST_HEAD
        and torch.cuda.get_device_capability(query_NHK.device) >= (8, 0)
    )


def has_triton_loss(device: str, dtype: torch.dtype) -> bool:
    """Whether softmax, loss and gradient of a row of logits run as one kernel: Triton on CUDA, in bf16."""
    return _allowed and device == "cuda" and dtype == torch.bfloat16 and _has_triton()


def has_tiled_loss(device: str) -> bool:
    """Whether head and loss run in tiles that fit the caches: on a CPU."""
    return _allowed and device == "cpu"


def has_attention_per_sequence(device: torch.device) -> bool:
    """Whether attention is called once per sequence: on a CPU a call costs less than the padding that it saves."""
    return _allowed and device.type == "cpu"


def has_matmul_attention(query_BHSK: Tensor) -> bool:
    """Whether plain matrix products replace the fused attention kernel: in bf16 on a CPU, where a training step
    at 256 tokens takes 7.1 instead of 11.3 microseconds per token."""
    return _allowed and query_BHSK.device.type == "cpu" and query_BHSK.dtype == torch.bfloat16


def has_transposed_head(device: torch.device) -> bool:
    """Whether generation multiplies one vector by a transposed copy of the head's weights: on a CPU."""
    return _allowed and device.type == "cpu"


def has_cuda_graphs(device: torch.device) -> bool:
    """Whether repeated work is captured as a CUDA graph and replayed: on CUDA, where every launch costs time."""
    return _allowed and device.type == "cuda"


@cache
def _has_triton() -> bool:
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True
