"""Layer rates: which weights are trained, with which learning rate, and from which epoch on.

`trainable` selects the weights. `layer_lr_decay` lowers the rates of lower layers. `unfreeze = gradual` unfreezes one
more layer per epoch, from the head downwards. In the first `head_epochs` only the head is trained. All of it is a
function of a tensor's depth and of the step, so a resumed run does the same. The head is new and always trained.
"""

import logging
import re

from torch import Tensor, nn

from headswap.core.errors import SettingError
from headswap.finetuning.config import AdaptationSettings
from headswap.model.lora import is_adapter
from headswap.model.text_model import TextModel
from headswap.training.parameter_groups import GroupRate

log = logging.getLogger("headswap")
LAYER = re.compile(r"base\.layers\.(\d+)\.")


def depth_of(name: str, num_layers: int) -> int:
    """How far below the head a tensor is: 0 the head, 1 the top layer, the embeddings last."""
    if not name.startswith("base."):
        return 0
    if found := LAYER.match(name):
        return num_layers - int(found[1])
    return 1 if name.startswith("base.final_norm.") else num_layers + 1


def freeze(model: TextModel, settings: AdaptationSettings) -> None:
    """Set `requires_grad` of the weights that are trained; the others keep every bit."""
    num_layers = model.shape.base.num_hidden_layers
    wanted = settings.trainable
    if settings.top_layers is not None and settings.top_layers > num_layers:
        raise SettingError(f"trainable = {wanted}: the base has {num_layers} layers.")
    if wanted == "biases" and not any(_is_bias(name) for name, _ in model.base.named_parameters()):
        raise SettingError("trainable = biases: this base has no biases. Use --trainable lora or top-N.")
    for name, tensor in model.named_parameters():
        tensor.requires_grad_(_is_trained(name, num_layers, settings))


def _is_trained(name: str, num_layers: int, settings: AdaptationSettings) -> bool:
    if not name.startswith("base.") or settings.trainable == "all":
        return True
    if settings.top_layers is not None:
        return depth_of(name, num_layers) <= settings.top_layers
    return {"head": False, "biases": _is_bias(name), "lora": is_adapter(name)}[settings.trainable]


def _is_bias(name: str) -> bool:
    return name.endswith("bias")


def group_rates(model: TextModel, settings: AdaptationSettings, *, steps_per_epoch: int) -> dict[str, GroupRate]:
    """The learning-rate scale of each trainable tensor, and the step until which it is frozen."""
    num_layers = model.shape.base.num_hidden_layers
    decay, factor = settings.layer_lr_decay, settings.head_lr_factor
    assert decay is not None
    assert factor is not None
    rates = {}
    for name, tensor in model.named_parameters():
        if tensor.requires_grad:
            depth = depth_of(name, num_layers)
            scale = decay ** max(0, depth - 1) if depth else factor
            rates[name] = GroupRate(scale, round(first_epoch(depth, settings) * steps_per_epoch))
    return rates


def first_epoch(depth: int, settings: AdaptationSettings) -> float:
    """The epoch from which on tensors of this depth are trained, counted from 0."""
    is_gradual = settings.unfreeze == "gradual"
    head_epochs = float(is_gradual) if settings.head_epochs is None else settings.head_epochs
    return head_epochs + (depth - 1) * is_gradual if depth else 0.0


def report_trainable(model: TextModel, settings: AdaptationSettings, *, num_epochs: float) -> None:
    """Log how many weights are trained; warn if some stay frozen to the end."""
    total, trained = count(model)
    if trained < total:
        log.info("Trainable: %s of %s parameters (%.2g %%).", f"{trained:,}", f"{total:,}", 100 * trained / total)
    num_layers = model.shape.base.num_hidden_layers
    deepest = max(depth_of(name, num_layers) for name, tensor in model.named_parameters() if tensor.requires_grad)
    start = first_epoch(deepest, settings) + 1
    if settings.unfreeze == "gradual":
        if start <= num_epochs:
            log.info(
                "Gradual unfreezing: one more layer per epoch, from the head down; all are trained from epoch %g on.",
                start,
            )
        else:
            log.warning(
                "Gradual unfreezing unfreezes one more layer per epoch. All are trained from epoch %g on, but the run "
                "has only %g epochs. Use more epochs, or --unfreeze at-once.", start, num_epochs,
            )  # fmt: skip
    elif start > 1:
        log.info("Only the head is trained in the first %g epochs.", start - 1)
        if start > num_epochs + 1:
            log.warning("head_epochs is %g, but the run has only %g epochs.", start - 1, num_epochs)


def count(model: nn.Module) -> tuple[int, int]:
    """Number of all parameters, and of those that are trained."""
    tensors: list[Tensor] = list(model.parameters())
    return sum(t.numel() for t in tensors), sum(t.numel() for t in tensors if t.requires_grad)
