"""Which special kernels this process may use, and which it has.

A kernel only changes speed and rounding; where one is missing the plain computation takes its place. The choice is the
process's, as PyTorch's own (threads, determinism) is: the machine a run is computed on makes it once.
"""

from functools import cache

import torch
from torch import Tensor

WIDEST_HEAD = 256  # of flash attention

_allowed = True


def allow_fast_kernels(allowed: bool) -> None:
    """Allow or forbid them from now on."""
    global _allowed
    _allowed = allowed


def has_ragged_attention(query_NHK: Tensor) -> bool:
    """Whether attention over sequences of different lengths can run without padding: flash attention on CUDA."""
    return (
        _allowed
        and query_NHK.is_cuda
        and query_NHK.dtype in (torch.bfloat16, torch.float16)
        and query_NHK.shape[-1] <= WIDEST_HEAD
        and torch.cuda.get_device_capability(query_NHK.device) >= (8, 0)
    )


def has_softmax_errors(device: str, dtype: torch.dtype) -> bool:
    """Whether softmax, loss and gradient of a row of logits can be one kernel: Triton on CUDA, in bf16."""
    return _allowed and device == "cuda" and dtype == torch.bfloat16 and _has_triton()


def has_tiled_loss(device: str) -> bool:
    """Whether head and loss run in tiles that fit the caches: on a CPU."""
    return _allowed and device == "cpu"


def has_cheap_calls(device: torch.device) -> bool:
    """Whether attention is called once a sequence: on a CPU a call costs less than the padding it saves."""
    return _allowed and device.type == "cpu"


def has_fast_products(query_BHSK: Tensor) -> bool:
    """Whether plain products beat the fused attention kernel: in bf16 on a CPU, by a half in a training step."""
    return _allowed and query_BHSK.device.type == "cpu" and query_BHSK.dtype == torch.bfloat16


def has_recordings(device: torch.device) -> bool:
    """Whether what is computed again and again is recorded and played back: on CUDA, where each launch costs."""
    return _allowed and device.type == "cuda"


@cache
def _has_triton() -> bool:
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True
