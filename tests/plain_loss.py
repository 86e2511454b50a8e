"""A loss compared with PyTorch's cross entropy."""

import torch
import torch.nn.functional as F

from headswap.kernels.chunked_loss import linear_cross_entropy_sum


def assert_equals_the_plain_loss(has_bias: bool) -> None:
    """The loss and its gradients equal those of PyTorch in float64."""
    generator = torch.Generator().manual_seed(1)
    leaves = [torch.randn(size, dtype=torch.float64, generator=generator) for size in ((23, 8), (17, 8), (17,))]
    target = torch.randint(0, 17, (23,), generator=generator)
    results = []
    for is_fused in (True, False):
        hidden, weight, bias = (leaf.clone().requires_grad_() for leaf in leaves)
        used_bias = bias if has_bias else None
        if is_fused:
            loss = linear_cross_entropy_sum(hidden, weight, used_bias, target)
        else:
            loss = F.cross_entropy(F.linear(hidden, weight, used_bias), target, reduction="sum")
        (loss * 0.37).backward()
        results.append([loss.detach(), hidden.grad, weight.grad, *([bias.grad] if has_bias else [])])
    for fused, plain in zip(*results, strict=True):
        torch.testing.assert_close(fused, plain, atol=1e-10, rtol=1e-10)
    with torch.no_grad():  # as in evaluation: no gradient is computed
        alone = linear_cross_entropy_sum(leaves[0], leaves[1], leaves[2] if has_bias else None, target)
    torch.testing.assert_close(alone, results[1][0], atol=1e-10, rtol=1e-10)
