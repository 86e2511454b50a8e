"""Softmax, cross entropy and its gradient for rows of logits, in one Triton kernel on CUDA.

Each row is read twice: once for the log of its total, once to be replaced by its error (softmax minus one at the
target), which is the loss's gradient by the logits. Nothing else is written but one loss a row.

Shapes: C rows, V vocabulary, P columns (V and padding, so that the products around this kernel are aligned).
"""

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4096


@triton.jit
def _values(logits, bias, columns, num_columns, HAS_BIAS: tl.constexpr):
    """A block of a row's logits in float32, with the bias; -inf beyond the vocabulary."""
    inside = columns < num_columns
    values = tl.load(logits + columns, mask=inside, other=float("-inf")).to(tl.float32)
    if HAS_BIAS:
        values += tl.load(bias + columns, mask=inside, other=0.0)
    return values


@triton.jit
def _kernel(
    logits, bias, target, loss, row_stride, num_columns, num_padded,
    HAS_BIAS: tl.constexpr, WRITES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    logits += row * row_stride
    # Read before anything is written: the reductions below hold all threads back until it is.
    target_column = tl.load(target + row)
    wanted = tl.load(logits + target_column).to(tl.float32)
    if HAS_BIAS:
        wanted += tl.load(bias + target_column)
    largest = float("-inf")
    total = 0.0
    for start in range(0, num_columns, BLOCK):
        values = _values(logits, bias, start + tl.arange(0, BLOCK), num_columns, HAS_BIAS)
        larger = tl.maximum(largest, tl.max(values, 0))
        total = total * tl.exp(largest - larger) + tl.sum(tl.exp(values - larger), 0)
        largest = larger
    log_total = largest + tl.log(total)
    tl.store(loss + row, log_total - wanted)
    if WRITES:
        for start in range(0, num_padded, BLOCK):
            columns = start + tl.arange(0, BLOCK)
            values = _values(logits, bias, columns, num_columns, HAS_BIAS)
            error = tl.exp(values - log_total) - tl.where(columns == target_column, 1.0, 0.0)
            tl.store(logits + columns, error.to(logits.dtype.element_ty), mask=columns < num_padded)


def softmax_errors_(
    logits_CP: Tensor, bias_V: Tensor | None, target_C: Tensor, *, num_columns: int, writes: bool
) -> Tensor:
    """The loss of each row; where `writes`, the logits become their errors and the padding becomes zeros."""
    assert logits_CP.stride(1) == 1
    loss_C = torch.empty(len(target_C), dtype=torch.float32, device=logits_CP.device)
    bias = None if bias_V is None else bias_V.float().contiguous()
    _kernel[(len(target_C),)](
        logits_CP, loss_C if bias is None else bias, target_C, loss_C, logits_CP.stride(0), num_columns,
        logits_CP.shape[1], HAS_BIAS=bias is not None, WRITES=writes, BLOCK=BLOCK, num_warps=8,
    )  # fmt: skip
    return loss_C
