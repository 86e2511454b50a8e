"""Head and cross entropy fused: the logits of all targets over the vocabulary are never in memory at once.

The loss and its gradients are computed together, chunk by chunk of targets; only the gradients of the inputs are
kept. The result equals `cross_entropy(linear(hidden, weight, bias), target, reduction="sum")`.

Shapes: T targets, D hidden width, V vocabulary, C targets of one chunk.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from headswap.kernels.cpu_tiled_loss import tiled_cross_entropy, tiled_loss
from headswap.kernels.policy import has_tiled_loss, has_triton_loss

ALIGNED, NARROW = 64, 8
"""The vocabulary and the hidden width are padded to multiples of these numbers in matrix products."""
CHUNK_ELEMENTS = {"cpu": 1 << 24, "cuda": 1 << 29}


def linear_cross_entropy_sum(
    hidden_TD: Tensor, weight_VD: Tensor, bias_V: Tensor | None, target_T: Tensor, counts_T: Tensor | None = None
) -> Tensor:
    """The summed cross entropy of `target_T` under the head, in float32 (float64 for float64 inputs).

    `counts_T`, if given, is 0 for padding targets, which are left out of the loss, and 1 for all others.
    """
    return _LinearCrossEntropy.apply(hidden_TD, weight_VD, bias_V, target_T, counts_T)


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, hidden_TD: Tensor, weight_VD: Tensor, bias_V: Tensor | None, target_T: Tensor,
        counts_T: Tensor | None,
    ) -> Tensor:  # fmt: skip
        device = hidden_TD.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight_VD.dtype
        with torch.autocast(device, enabled=False):
            if has_tiled_loss(device) and counts_T is None:
                return _forward_in_tiles(ctx, hidden_TD, weight_VD, bias_V, target_T, dtype)
            return _forward(ctx, hidden_TD, weight_VD, bias_V, target_T, counts_T, dtype)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        (scale,) = grad_outputs
        grad_hidden, grad_weight, grad_bias = ctx.saved_tensors
        # In place, to save the memory of a second gradient; PyTorch forbids a second backward pass anyway.
        return (
            grad_hidden.mul_(scale.to(grad_hidden.dtype)),
            grad_weight.mul_(scale),
            grad_bias.mul_(scale) if ctx.has_bias else None,
            None,
            None,
        )


def _forward(
    ctx: Any, hidden_TD: Tensor, weight_VD: Tensor, bias_V: Tensor | None, target_T: Tensor, counts_T: Tensor | None,
    dtype: torch.dtype,
) -> Tensor:  # fmt: skip
    needs_grad = any(ctx.needs_input_grad[:3])
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    vocab_size, width = weight_VD.shape
    device = hidden_TD.device
    has_kernel = has_triton_loss(device.type, dtype)
    # Unaligned row widths make matrix products on CUDA several times slower.
    padding = -vocab_size % ALIGNED if has_kernel else 0
    hidden, weight = hidden_TD.to(dtype), F.pad(weight_VD.to(dtype), (0, 0, 0, padding))
    total = hidden.new_zeros((), dtype=wide)
    if needs_grad:
        # On CUDA a column of ones makes the gradient of the bias part of the matrix product for the weights.
        has_bias = bias_V is not None
        inputs = _with_ones(hidden) if has_kernel and has_bias else hidden
        grad_hidden = torch.empty_like(hidden)
        grad_weight = torch.zeros(len(weight), inputs.shape[1], dtype=wide, device=device)
        grad_bias = torch.zeros(vocab_size if has_bias and inputs is hidden else 0, dtype=wide, device=device)
    chunk = max(1, CHUNK_ELEMENTS.get(device.type, 1 << 24) // len(weight))
    for start in range(0, len(target_T), chunk):
        rows = slice(start, start + chunk)
        counts_C = None if counts_T is None else counts_T[rows]
        logits_CV = hidden[rows] @ weight.T
        if has_kernel:
            loss_C, error_CV = _errors_by_kernel(logits_CV, bias_V, target_T[rows], counts_C, needs_grad, vocab_size)
        else:
            loss_C, error_CV = _errors(logits_CV, bias_V, target_T[rows], counts_C, needs_grad, wide)
        total += loss_C.sum()
        if needs_grad:
            if len(grad_bias):
                grad_bias += error_CV.sum(0, dtype=wide)
            error_CV = error_CV.to(dtype)
            torch.mm(error_CV, weight, out=grad_hidden[rows])
            grad_weight += error_CV.T @ inputs[rows]
    if needs_grad:
        ctx.has_bias = has_bias
        grad_weight = grad_weight[:vocab_size]
        grad_bias = grad_weight[:, width] if inputs is not hidden else grad_bias
        ctx.save_for_backward(grad_hidden.to(hidden_TD.dtype), grad_weight[:, :width].to(weight_VD.dtype), grad_bias)
    return total


def _with_ones(hidden_TD: Tensor) -> Tensor:
    """The same vectors with a 1 appended to each, and zeros up to an aligned width."""
    width = hidden_TD.shape[1]
    wider = F.pad(hidden_TD, (0, -(width + 1) % NARROW + 1))
    wider[:, width] = 1
    return wider


def _forward_in_tiles(
    ctx: Any, hidden_TD: Tensor, weight_VD: Tensor, bias_V: Tensor | None, target_T: Tensor, dtype: torch.dtype
) -> Tensor:
    if not any(ctx.needs_input_grad[:3]):
        return tiled_loss(hidden_TD, weight_VD, bias_V, target_T, dtype=dtype)
    total, gradients = tiled_cross_entropy(hidden_TD, weight_VD, bias_V, target_T, dtype=dtype)
    ctx.has_bias = bias_V is not None
    ctx.save_for_backward(
        gradients.hidden_TD.to(hidden_TD.dtype), gradients.weight_VD.to(weight_VD.dtype), gradients.bias_V
    )
    return total


def _errors(
    logits_CV: Tensor, bias_V: Tensor | None, target_C: Tensor, counts_C: Tensor | None, needs_grad: bool,
    wide: torch.dtype,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The loss of each row, and its gradient with respect to the logits (undefined if `needs_grad` is False)."""
    logits_CV = logits_CV.to(wide)
    if bias_V is not None:
        logits_CV += bias_V
    target_C1 = target_C.unsqueeze(1)
    log_total_C1 = torch.logsumexp(logits_CV, dim=1, keepdim=True)
    loss_C = (log_total_C1 - logits_CV.gather(1, target_C1)).squeeze(1)
    if needs_grad:
        logits_CV.sub_(log_total_C1).exp_()
        logits_CV.scatter_add_(1, target_C1, logits_CV.new_full(target_C1.shape, -1.0))
    if counts_C is not None:
        counts_C = counts_C.to(wide)
        loss_C, logits_CV = loss_C * counts_C, logits_CV.mul_(counts_C.unsqueeze(1))
    return loss_C, logits_CV


def _errors_by_kernel(
    logits_CP: Tensor, bias_V: Tensor | None, target_C: Tensor, counts_C: Tensor | None, needs_grad: bool,
    num_columns: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The same as `_errors`, as one Triton kernel on CUDA."""
    from headswap.kernels.triton_loss import softmax_errors_

    loss_C = softmax_errors_(logits_CP, bias_V, target_C, counts_C, num_columns=num_columns, writes=needs_grad)
    return loss_C, logits_CP
