"""Checkpoints: a bundle with the optimizer's state and the run's counters beside it.

Each stands in a folder of its own, `checkpoints/step-00001000`, written under a temporary name and renamed; `last`
points at the newest. There are no random-number states to keep: every draw is a function of (seed, step). The weights
that were best on validation are kept as `checkpoints/best-00000800`, named by the checkpoint that knows of them.
"""

import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from headswap.bundle import WEIGHTS, Bundle, load_weights
from headswap.core.files import atomic_folder, read_json, remove_folder, write_json
from headswap.model.text_model import TextModel
from headswap.training.optimizer import load_optimizer_tensors, optimizer_tensors

OPTIMIZER, STATE = "optimizer.safetensors", "state.json"


@dataclass
class Progress:
    """The counters of a run: all that must survive besides weights and optimizer state."""

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    window_losses: list[float] = field(default_factory=list)
    window_targets: list[int] = field(default_factory=list)
    best_step: int | None = None
    best_score: list[float] | None = None
    evaluations_without_gain: int = 0
    has_stopped_early: bool = False
    history: list[dict[str, Any]] = field(default_factory=list)

    def add(self, losses: list[float], targets: list[int]) -> None:
        """Count one step's losses, each with its number of targets, to the line that is written next."""
        before = self.window_losses or [0.0] * len(losses)
        self.window_losses = [sum + loss * number for sum, loss, number in zip(before, losses, targets, strict=True)]
        counted = self.window_targets or [0] * len(targets)
        self.window_targets = [sum + number for sum, number in zip(counted, targets, strict=True)]

    def window_means(self) -> list[float]:
        """The losses a target since the last line."""
        return [loss / max(1, num) for loss, num in zip(self.window_losses, self.window_targets, strict=True)]


def save_checkpoint(
    folder: Path, bundle: Bundle, optimizer: torch.optim.AdamW, progress: Progress, *, keep: int
) -> Path:
    """Write `step-N`, point `last` at it, and remove the oldest beyond `keep`."""
    target = folder / f"step-{progress.step:08d}"
    with atomic_folder(target) as temporary:
        bundle.write_into(temporary)
        save_file(optimizer_tensors(bundle.model, optimizer), temporary / OPTIMIZER)
        write_json(temporary / STATE, asdict(progress))
    _point(folder / "last", target)
    for old in find_checkpoints(folder)[:-keep]:
        remove_folder(old)
    return target


def save_best(folder: Path, bundle: Bundle, weights: dict[str, Tensor], progress: Progress) -> None:
    """Keep the weights that were best on validation, under the step they were made in."""
    best = TextModel(bundle.model.shape)
    best.load_state_dict(weights)
    replace(bundle, model=best.eval()).save(best_folder(folder, progress))


def drop_other_bests(folder: Path, progress: Progress) -> None:
    """Remove the best weights that no checkpoint refers to any more."""
    needed = {read_json(checkpoint / STATE).get("best_step") for checkpoint in find_checkpoints(folder)}
    for old in folder.glob("best-*"):
        if int(old.name.removeprefix("best-")) not in needed | {progress.best_step}:
            remove_folder(old)


def best_folder(folder: Path, progress: Progress) -> Path:
    """Where the best weights of a run are."""
    assert progress.best_step is not None
    return folder / f"best-{progress.best_step:08d}"


def find_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in a folder, oldest first."""
    return sorted(path for path in folder.glob("step-*") if (path / STATE).is_file())


def resume_from(
    folder: Path, model: TextModel, make_optimizer: Callable[[], torch.optim.AdamW]
) -> tuple[torch.optim.AdamW, Progress]:
    """Fill the model from the newest checkpoint and return (optimizer, progress); fresh ones if there is none."""
    checkpoints = find_checkpoints(folder)
    if not checkpoints:
        return make_optimizer(), Progress()
    newest = checkpoints[-1]
    load_weights_in_place(model, newest)
    optimizer = make_optimizer()
    load_optimizer_tensors(model, optimizer, load_file(newest / OPTIMIZER))
    return optimizer, Progress(**read_json(newest / STATE))


def load_weights_in_place(model: TextModel, bundle: Path) -> None:
    """Replace a model's weights by those of a bundle, on the model's device."""
    load_weights(model, bundle / WEIGHTS, device=model.device)


def _point(link: Path, target: Path) -> None:
    """Make `link` name `target`; where there are no symbolic links the newest step-N folder alone must do."""
    temporary = link.with_name(f".tmp-{os.getpid()}-{link.name}")
    temporary.unlink(missing_ok=True)
    try:
        temporary.symlink_to(target.name, target_is_directory=True)
    except (OSError, NotImplementedError):
        return
    os.replace(temporary, link)
