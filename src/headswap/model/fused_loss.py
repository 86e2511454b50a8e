"""Head and cross entropy in one: logits over a vocabulary are never whole in memory.

The loss and its gradients are computed together, a chunk of targets at a time; only the gradients of the inputs are
kept. Equal to `cross_entropy(linear(hidden, weight, bias), target, reduction="sum")`.

Shapes: T targets, D hidden width, V vocabulary, C targets of one chunk.
"""

from typing import Any

import torch
from torch import Tensor

CHUNK_ELEMENTS = {"cpu": 1 << 24, "cuda": 1 << 29}


def linear_cross_entropy_sum(hidden_TD: Tensor, weight_VD: Tensor, bias_V: Tensor | None, target_T: Tensor) -> Tensor:
    """The summed cross entropy of `target_T` under the head, in float32 (float64 for float64 inputs)."""
    return _LinearCrossEntropy.apply(hidden_TD, weight_VD, bias_V, target_T)


class _LinearCrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, hidden_TD: Tensor, weight_VD: Tensor, bias_V: Tensor | None, target_T: Tensor) -> Tensor:
        device = hidden_TD.device.type
        dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else weight_VD.dtype
        with torch.autocast(device, enabled=False):
            return _forward(ctx, hidden_TD, weight_VD, bias_V, target_T, dtype)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Tensor) -> tuple[Tensor | None, ...]:
        (scale,) = grad_outputs
        grad_hidden, grad_weight, grad_bias = ctx.saved_tensors
        return (
            grad_hidden * scale.to(grad_hidden.dtype),
            grad_weight * scale,
            grad_bias * scale if ctx.has_bias else None,
            None,
        )


def _forward(
    ctx: Any, hidden_TD: Tensor, weight_VD: Tensor, bias_V: Tensor | None, target_T: Tensor, dtype: torch.dtype
) -> Tensor:
    needs_grad = any(ctx.needs_input_grad[:3])
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    hidden, weight = hidden_TD.to(dtype), weight_VD.to(dtype)
    total = hidden.new_zeros((), dtype=wide)
    if needs_grad:
        grad_hidden = torch.empty_like(hidden)
        grad_weight = torch.zeros_like(weight_VD, dtype=wide)
        grad_bias = torch.zeros(weight.shape[0] if bias_V is not None else 0, dtype=wide, device=hidden.device)
    chunk = max(1, CHUNK_ELEMENTS.get(hidden.device.type, 1 << 24) // weight.shape[0])
    for start in range(0, len(target_T), chunk):
        rows = slice(start, start + chunk)
        logits_CV = (hidden[rows] @ weight.T).to(wide)
        if bias_V is not None:
            logits_CV += bias_V
        target_C1 = target_T[rows].unsqueeze(1)
        log_total_C1 = torch.logsumexp(logits_CV, dim=1, keepdim=True)
        total += (log_total_C1 - logits_CV.gather(1, target_C1)).sum()
        if needs_grad:
            error_CV = logits_CV.sub_(log_total_C1).exp_()
            error_CV.scatter_add_(1, target_C1, error_CV.new_full(target_C1.shape, -1.0))
            if bias_V is not None:
                grad_bias += error_CV.sum(0)
            error_CV = error_CV.to(dtype)
            torch.mm(error_CV, weight, out=grad_hidden[rows])
            grad_weight += error_CV.T @ hidden[rows]
    if needs_grad:
        ctx.has_bias = bias_V is not None
        ctx.save_for_backward(grad_hidden.to(hidden_TD.dtype), grad_weight.to(weight_VD.dtype), grad_bias)
    return total
