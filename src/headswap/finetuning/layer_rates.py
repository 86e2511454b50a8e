"""Ways to adapt a base: which weights move, how fast, and from which epoch on.

`trainable` picks the weights; `layer_lr_decay` makes lower layers slower; `unfreeze = gradual` lets one more layer move
each epoch, from the head down. All of it is a function of a tensor's depth and of the step, so that a resumed run does
the same. The head is new and always moves.
"""

import logging
import re

from torch import Tensor, nn

from headswap.core.errors import SettingError
from headswap.finetuning.config import AdaptationSettings
from headswap.model.lora import is_adapter
from headswap.model.text_model import TextModel
from headswap.training.optimizer import Pace

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
    """Mark the weights that may move; the others keep every bit."""
    num_layers = model.shape.base.num_hidden_layers
    wanted = settings.trainable
    if settings.top_layers is not None and settings.top_layers > num_layers:
        raise SettingError(f"trainable = {wanted}: the base has {num_layers} layers.")
    if wanted == "biases" and not any(_is_bias(name) for name, _ in model.base.named_parameters()):
        raise SettingError("trainable = biases: this base has no biases. Use --trainable lora or top-N.")
    for name, tensor in model.named_parameters():
        tensor.requires_grad_(_may_move(name, num_layers, settings))


def _may_move(name: str, num_layers: int, settings: AdaptationSettings) -> bool:
    if not name.startswith("base.") or settings.trainable == "all":
        return True
    if settings.top_layers is not None:
        return depth_of(name, num_layers) <= settings.top_layers
    return {"head": False, "biases": _is_bias(name), "lora": is_adapter(name)}[settings.trainable]


def _is_bias(name: str) -> bool:
    return name.endswith("bias")


def paces_of(model: TextModel, settings: AdaptationSettings, *, steps_per_epoch: int) -> dict[str, Pace]:
    """How each trainable tensor moves."""
    num_layers = model.shape.base.num_hidden_layers
    gradual = settings.unfreeze == "gradual"
    decay, factor = settings.layer_lr_decay, settings.head_lr_factor
    assert decay is not None
    assert factor is not None
    paces = {}
    for name, tensor in model.named_parameters():
        if tensor.requires_grad:
            depth = depth_of(name, num_layers)
            share = decay ** max(0, depth - 1) if depth else factor
            paces[name] = Pace(share, depth * steps_per_epoch if gradual else 0)
    return paces


def say_what_moves(model: TextModel, settings: AdaptationSettings, *, num_epochs: float) -> None:
    """One line on how many weights move, and a warning if some never get their turn."""
    total, moving = count(model)
    if moving < total:
        log.info("Trainable: %s of %s parameters (%.2g %%).", f"{moving:,}", f"{total:,}", 100 * moving / total)
    if settings.unfreeze == "gradual":
        num_layers = model.shape.base.num_hidden_layers
        last = max(depth_of(name, num_layers) for name, tensor in model.named_parameters() if tensor.requires_grad)
        if last + 1 <= num_epochs:
            log.info(
                "Gradual: one more layer moves each epoch, from the head down, and all from epoch %d on.", last + 1
            )
        else:
            log.warning(
                "Gradual unfreezing lets one more layer move each epoch: all of them move from epoch %d on, but the "
                "run has %g. Ask for more epochs, or leave --unfreeze out.", last + 1, num_epochs,
            )  # fmt: skip


def count(model: nn.Module) -> tuple[int, int]:
    """All parameters, and those that move."""
    tensors: list[Tensor] = list(model.parameters())
    return sum(t.numel() for t in tensors), sum(t.numel() for t in tensors if t.requires_grad)
