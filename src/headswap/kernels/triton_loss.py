"""Softmax, cross entropy and its gradient for rows of logits, in one Triton kernel on CUDA.

Each row is read twice: once for its log-sum-exp, and once to be overwritten by its error (softmax minus one at the
target), the gradient of the loss with respect to the logits. Apart from that, one loss per row is written.

A thread reads groups of adjacent columns and keeps their maximum and total in registers, so threads synchronise only at
the end of a row. Masks end at the padded width, not at the vocabulary: a group is inside or outside as a whole and is
read with one load.

Shapes: C rows, V vocabulary, P columns (V and padding, so that the products around this kernel are aligned), G groups.
"""

import torch
import torch.nn.functional as F
import triton
import triton.language as tl
from torch import Tensor

GROUP = 8  # columns of 16 bits per load
NUM_GROUPS = 256
NUM_WARPS = 4
LOW = tl.constexpr(-1e30)
"""Initial maximum: finite, so that the difference to it is not nan."""


@triton.jit
def _values(logits, bias, columns, num_columns, num_padded, HAS_BIAS: tl.constexpr):
    """A block of a row's logits in float32, with the bias; -inf beyond the vocabulary."""
    is_there = columns < num_padded
    values = tl.load(logits + columns, mask=is_there, other=0.0).to(tl.float32)
    if HAS_BIAS:
        values += tl.load(bias + columns, mask=is_there, other=0.0)
    return tl.where(columns < num_columns, values, float("-inf"))


@triton.jit
def _kernel(
    logits, bias, target, counts, loss, row_stride, num_columns, num_padded,
    HAS_BIAS: tl.constexpr, HAS_COUNTS: tl.constexpr, WRITES: tl.constexpr, GROUPS: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0).to(tl.int64)
    logits += row * row_stride
    # Read before the logits are overwritten: the reductions below synchronise all threads.
    target_column = tl.load(target + row)
    wanted = tl.load(logits + target_column).to(tl.float32)
    if HAS_BIAS:
        wanted += tl.load(bias + target_column)
    count = 1.0
    if HAS_COUNTS:
        count = tl.load(counts + row).to(tl.float32)
    block = tl.arange(0, GROUPS)[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    largest_G = tl.full((GROUPS,), LOW, tl.float32)
    total_G = tl.zeros((GROUPS,), tl.float32)
    for start in range(0, num_padded, GROUPS * GROUP):
        values = _values(logits, bias, start + block, num_columns, num_padded, HAS_BIAS)
        larger_G = tl.maximum(largest_G, tl.max(values, 1))
        total_G = total_G * tl.exp(largest_G - larger_G) + tl.sum(tl.exp(values - larger_G[:, None]), 1)
        largest_G = larger_G
    largest = tl.max(largest_G, 0)
    log_total = largest + tl.log(tl.sum(total_G * tl.exp(largest_G - largest), 0))
    tl.store(loss + row, (log_total - wanted) * count)
    if WRITES:
        for start in range(0, num_padded, GROUPS * GROUP):
            columns = start + block
            values = _values(logits, bias, columns, num_columns, num_padded, HAS_BIAS)
            error = (tl.exp(values - log_total) - tl.where(columns == target_column, 1.0, 0.0)) * count
            tl.store(logits + columns, error.to(logits.dtype.element_ty), mask=columns < num_padded)


def softmax_errors_(
    logits_CP: Tensor, bias_V: Tensor | None, target_C: Tensor, counts_C: Tensor | None, *, num_columns: int,
    writes: bool,
) -> Tensor:  # fmt: skip
    """The loss of each row; with `writes` the logits are overwritten by their errors and the padding by zeros.

    Rows with `counts_C` 0 have zero loss and zero error.
    """
    assert logits_CP.stride(1) == 1
    num_padded = logits_CP.shape[1]
    loss_C = torch.empty(len(target_C), dtype=torch.float32, device=logits_CP.device)
    bias_P = loss_C if bias_V is None else F.pad(bias_V.float(), (0, num_padded - num_columns))
    _kernel[(len(target_C),)](
        logits_CP, bias_P, target_C, loss_C if counts_C is None else counts_C, loss_C, logits_CP.stride(0),
        num_columns, num_padded, HAS_BIAS=bias_V is not None, HAS_COUNTS=counts_C is not None, WRITES=writes,
        GROUPS=NUM_GROUPS, GROUP=GROUP, num_warps=NUM_WARPS,
    )  # fmt: skip
    return loss_C
