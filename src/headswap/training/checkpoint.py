"""Checkpoints: a bundle, the optimizer's state and the run's counters.

Each checkpoint is a folder, `checkpoints/step-00001000`, with a manifest of checksums. It is written under a temporary
name, flushed and renamed; the link `last` points to the newest one. No random-number state is saved: every draw is a
function of (seed, step). The weights with the best validation score are saved as `checkpoints/best-00000800`; the
checkpoint's state names that step, and the checkpoint is incomplete without it. An incomplete or damaged checkpoint is
reported and skipped. A run with `--parallel fsdp` writes one file of weights and optimizer state per process instead of
a bundle (sharded_checkpoint.py).
"""

import logging
import os
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from headswap.bundle.bundle import OWN_FILES as BUNDLE
from headswap.bundle.bundle import WEIGHTS, Bundle
from headswap.core.atomic_folder import atomic_folder, discard_folder
from headswap.core.errors import InputError
from headswap.core.files import flush_folder, read_json, write_json
from headswap.core.manifest import manifest_problems, write_manifest
from headswap.core.ownership import OwnFiles, unique
from headswap.model.text_model import TextModel
from headswap.model.weights import assign_weights, load_weights
from headswap.training.optimizer import load_optimizer_tensors, optimizer_tensors
from headswap.training.parameter_groups import Optimizer

log = logging.getLogger("headswap")
OPTIMIZER, STATE = "optimizer.safetensors", "state.json"
SECONDS_BETWEEN_SAVES = 60.0
SHARD = r"shard-\d+-model-\d+-of-\d+\.safetensors"
OWN_FILES = OwnFiles(files=(*BUNDLE.files, *map(re.escape, (OPTIMIZER, STATE)), SHARD))


@dataclass
class Progress:
    """The counters of a run: with weights and optimizer state, all that is needed to resume it."""

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
    skipped: list[dict[str, Any]] = field(default_factory=list)

    def skipped_steps(self) -> dict[str, Any]:
        """The entry of `result.json` about skipped steps; empty if there were none."""
        return {"skipped_steps": self.skipped} if self.skipped else {}

    def add(self, losses: list[float], targets: list[int]) -> None:
        """Add one step's losses, each with its number of targets, to the next line of metrics."""
        before = self.window_losses or [0.0] * len(losses)
        self.window_losses = [sum + loss * number for sum, loss, number in zip(before, losses, targets, strict=True)]
        counted = self.window_targets or [0] * len(targets)
        self.window_targets = [sum + number for sum, number in zip(counted, targets, strict=True)]

    def window_means(self) -> list[float]:
        """The losses per target since the last line of metrics."""
        return [loss / max(1, num) for loss, num in zip(self.window_losses, self.window_targets, strict=True)]


def is_save_due(step: int, save_every: int | None, possible_every: int, seconds_since_last: float) -> bool:
    """Every `save_every` steps; without it every `possible_every` steps (at evaluations, or once per epoch), at most
    once per minute. Results do not depend on it."""
    if save_every is not None:
        return step % save_every == 0
    return step % possible_every == 0 and seconds_since_last > SECONDS_BETWEEN_SAVES


def save_checkpoint(folder: Path, bundle: Bundle, optimizer: Optimizer, progress: Progress, *, keep: int) -> Path:
    """Write `step-N`, point `last` to it, verify it, and then remove old checkpoints until `keep` are left."""
    target = step_folder(folder, progress)
    with atomic_folder(target, OWN_FILES) as temporary:
        bundle.write_into(temporary)
        save_file(optimizer_tensors(bundle.model, optimizer), temporary / OPTIMIZER)
        seal(temporary, progress)
    publish(target, progress, keep=keep)
    return target


def step_folder(folder: Path, progress: Progress) -> Path:
    """The folder of the checkpoint of the current step."""
    return folder / f"step-{progress.step:08d}"


def seal(folder: Path, progress: Progress) -> None:
    """Write the counters, and the manifest as the last file."""
    write_json(folder / STATE, asdict(progress))
    write_manifest(folder)


def publish(target: Path, progress: Progress, *, keep: int) -> None:
    """Point `last` to a new checkpoint, verify it, and then remove old checkpoints until `keep` are left."""
    point_at(target)
    if problems := problems_of(target):
        log.warning("The new checkpoint is damaged, so no older one is removed: %s", problems[0])
        return
    others = [path for path in find_checkpoints(target.parent) if path != target]
    # A checkpoint of a later step is damaged: it was skipped when this run was resumed.
    complete = [path for path in others if step_of(path) < progress.step and not problems_of(path, contents=False)]
    kept = complete[len(complete) - (keep - 1) :] if keep > 1 else []
    for old in others:
        if old not in kept:
            discard_folder(old)


def save_best(folder: Path, bundle: Bundle, weights: dict[str, Tensor], progress: Progress) -> None:
    """Save the weights with the best validation score, named after their step."""
    best = TextModel(bundle.model.shape)
    best.load_state_dict(weights)
    replace(bundle, model=best.eval()).save(best_folder(folder, progress))


def drop_other_bests(folder: Path, progress: Progress) -> None:
    """Remove the best weights that no checkpoint refers to."""
    needed = {_best_step(checkpoint) for checkpoint in find_checkpoints(folder)} | {progress.best_step}
    for old in folder.glob("best-*"):
        if old.name not in {f"best-{step:08d}" for step in needed if step is not None}:
            discard_folder(old)


def best_folder(folder: Path, progress: Progress) -> Path:
    """The folder of a run's best weights."""
    assert progress.best_step is not None
    return folder / f"best-{progress.best_step:08d}"


def find_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in a folder, oldest first, including damaged ones."""
    names = [path for path in folder.glob("step-*") if path.name.removeprefix("step-").isdigit() and path.is_dir()]
    return sorted(names, key=step_of)


def step_of(checkpoint: Path) -> int:
    """The step that a checkpoint was written at."""
    return int(checkpoint.name.removeprefix("step-"))


def problems_of(checkpoint: Path, *, contents: bool = True) -> list[str]:
    """What is missing or damaged in a checkpoint or in the best weights it refers to."""
    if problems := manifest_problems(checkpoint, contents=contents):
        return problems
    best = _best_step(checkpoint)
    return [] if best is None else manifest_problems(checkpoint.parent / f"best-{best:08d}", contents=contents)


def _best_step(checkpoint: Path) -> int | None:
    try:
        state = read_json(checkpoint / STATE)
    except InputError:
        return None
    return state.get("best_step") if isinstance(state, dict) else None


def newest_complete(folder: Path) -> Path | None:
    """The newest checkpoint that can be resumed from; a warning reports each newer one and its first problem."""
    checkpoints = find_checkpoints(folder)
    for number, checkpoint in enumerate(reversed(checkpoints)):
        problems = problems_of(checkpoint)
        if not problems:
            return checkpoint
        is_oldest = number == len(checkpoints) - 1
        instead = (
            "there is no older one, so the run starts from the beginning" if is_oldest else "using the one before it"
        )
        log.warning("The checkpoint %s is incomplete or damaged; %s. %s", checkpoint, instead, problems[0])
    return None


def resume_from(
    checkpoint: Path | None, model: TextModel, make_optimizer: Callable[[], Optimizer]
) -> tuple[Optimizer, Progress]:
    """Load a checkpoint into the model and return (optimizer, progress); without a checkpoint both are new."""
    if checkpoint is None:
        return make_optimizer(), Progress()
    if is_sharded(checkpoint):
        from headswap.training.sharded_checkpoint import read_whole

        tensors = read_whole(checkpoint)
        assign_weights(model, {name: tensors.pop(name).to(model.device) for name in list(model.state_dict())})
    else:
        load_weights_in_place(model, checkpoint)
        tensors = load_file(checkpoint / OPTIMIZER)
    optimizer = make_optimizer()
    load_optimizer_tensors(model, optimizer, tensors)
    return optimizer, Progress(**read_json(checkpoint / STATE))


def is_sharded(checkpoint: Path) -> bool:
    """Whether a checkpoint was written by a run with `--parallel fsdp`."""
    return any(re.fullmatch(SHARD, path.name) for path in checkpoint.iterdir())


def load_weights_in_place(model: TextModel, bundle: Path) -> None:
    """Replace a model's weights by those of a bundle, on the model's device."""
    load_weights(model, bundle / WEIGHTS, device=model.device)


def point_at(target: Path) -> None:
    """Point the link `last` to a checkpoint; does nothing on file systems without symbolic links."""
    link = target.with_name("last")
    temporary = unique(link)
    try:
        temporary.symlink_to(target.name, target_is_directory=True)
    except (OSError, NotImplementedError):
        return
    if (
        link.is_dir() and not link.is_symlink()
    ):  # the run folder was copied by a program that replaced links by their targets
        discard_folder(link)
    os.replace(temporary, link)
    flush_folder(link.parent)
