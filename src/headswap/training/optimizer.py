"""AdamW: fused, with no decay on biases and norms, and unable to write a non-finite step into the weights."""

import torch
from torch import Tensor, nn

from headswap.training.config import TrainingSettings


def make_optimizer(model: nn.Module, settings: TrainingSettings) -> torch.optim.AdamW:
    """One optimizer over all trainable parameters, in two groups."""
    trainable = [(name, tensor) for name, tensor in model.named_parameters() if tensor.requires_grad]
    plain = [tensor for name, tensor in trainable if is_without_decay(name)]
    decayed = [tensor for name, tensor in trainable if not is_without_decay(name)]
    groups = [{"params": decayed, "weight_decay": settings.weight_decay}, {"params": plain, "weight_decay": 0.0}]
    return torch.optim.AdamW(
        [group for group in groups if group["params"]],
        lr=0.0,
        betas=(settings.adam_beta1, settings.adam_beta2),
        eps=settings.adam_epsilon,
        fused=True,
    )


def is_without_decay(name: str) -> bool:
    """Biases and norms are not decayed."""
    return name.endswith("bias") or "norm." in name


def guarded_step(optimizer: torch.optim.AdamW, learning_rate: float, *, is_broken: Tensor) -> None:
    """Step, unless `is_broken` (a device scalar, 0 or 1) says that a gradient was not finite; the host never waits."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
    optimizer.found_inf = is_broken  # type: ignore[attr-defined]
    optimizer.grad_scale = None  # type: ignore[attr-defined]
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.AdamW) -> dict[str, Tensor]:
    """The optimizer's state under names made of the parameters' names, for a safetensors file."""
    tensors = {}
    for name, parameter in model.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            tensors[f"{name}:{key}"] = value.detach().cpu().contiguous()
    return tensors


def load_optimizer_tensors(model: nn.Module, optimizer: torch.optim.AdamW, tensors: dict[str, Tensor]) -> None:
    """Put back what `optimizer_tensors` took out."""
    for name, parameter in model.named_parameters():
        keys = [key for key in ("step", "exp_avg", "exp_avg_sq") if f"{name}:{key}" in tensors]
        if keys:
            optimizer.state[parameter] = {key: tensors[f"{name}:{key}"].to(parameter.device) for key in keys}
