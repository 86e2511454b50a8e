"""Where the weights and the optimizer state of a run are: whole on every process, or one shard per process (FSDP).

The runner uses both in the same way. Evaluation and saving read the model of the bundle. Under FSDP it has weights only
inside `whole()`; between evaluations it is on the meta device, without memory.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from safetensors.torch import load_file

from headswap.bundle.bundle import WEIGHTS, Bundle
from headswap.core.atomic_folder import atomic_folder
from headswap.core.errors import SettingError
from headswap.core.files import read_json
from headswap.model.weights import assign_weights
from headswap.objectives.objective import Objective
from headswap.training.checkpoint import (
    OPTIMIZER,
    OWN_FILES,
    STATE,
    Progress,
    is_sharded,
    publish,
    resume_from,
    save_checkpoint,
    seal,
    step_folder,
)
from headswap.training.config import OptimizerSettings, TrainingSettings
from headswap.training.device import Machine
from headswap.training.distributed import Processes
from headswap.training.gradients import LossModule
from headswap.training.optimizer import make_optimizer, optimizer_of
from headswap.training.parameter_groups import GroupRate, Optimizer

if TYPE_CHECKING:
    from headswap.training.sharded import ShardedModule

Rates = Mapping[str, GroupRate] | None


class Placement(Protocol):
    """The trained module, and how its weights are read, saved and restored; all processes call each method."""

    @property
    def module(self) -> LossModule:
        """What is trained."""

    def resume(self, checkpoint: Path | None, settings: TrainingSettings, rates: Rates) -> tuple[Optimizer, Progress]:
        """Load a checkpoint and return (optimizer, progress); without a checkpoint both are new."""

    def whole(self) -> AbstractContextManager[None]:
        """A context in which the model of the bundle has all weights, on every process."""

    def save(self, folder: Path, optimizer: Optimizer, progress: Progress, *, keep: int) -> None:
        """Write a checkpoint."""

    def finish(self) -> None:
        """Give the model of the bundle all weights after the last step."""


class Replicated:
    """Every process has all weights."""

    def __init__(self, bundle: Bundle, objective: Objective, machine: Machine, processes: Processes) -> None:
        self.bundle, self.processes = bundle, processes
        self.module = LossModule(bundle.model.to(machine.device), objective)

    def resume(self, checkpoint: Path | None, settings: TrainingSettings, rates: Rates) -> tuple[Optimizer, Progress]:
        """Load a checkpoint of either kind."""
        model = self.bundle.model
        return resume_from(checkpoint, model, lambda: make_optimizer(model, settings, rates))

    def whole(self) -> AbstractContextManager[None]:
        """It always has them."""
        return nullcontext()

    def save(self, folder: Path, optimizer: Optimizer, progress: Progress, *, keep: int) -> None:
        """The first process writes everything."""
        if self.processes.is_first:
            save_checkpoint(folder, self.bundle, optimizer, progress, keep=keep)

    def finish(self) -> None:
        """Nothing to do."""


class Sharded:
    """Every process has one shard of each weight."""

    module: "ShardedModule"

    def __init__(self, bundle: Bundle, objective: Objective, machine: Machine, processes: Processes) -> None:
        from headswap.training.sharded import ShardedModule

        self.model, self.processes = bundle.model, processes
        self.module = ShardedModule(bundle.model, objective, machine, processes)
        self._forget()

    def resume(self, checkpoint: Path | None, settings: TrainingSettings, rates: Rates) -> tuple[Optimizer, Progress]:
        """Load a checkpoint of either kind, written by any number of processes."""
        from headswap.training.sharded_checkpoint import read_shards

        shards = self.module.trainable_shards()
        optimizer = optimizer_of(shards, settings, rates)
        if checkpoint is None:
            return optimizer, Progress()
        if is_sharded(checkpoint):
            read_shards(checkpoint, self.module, optimizer)
        else:
            self.module.fill(load_file(checkpoint / WEIGHTS))
            for label, tensor in load_file(checkpoint / OPTIMIZER).items():
                name, _, key = label.partition(":")
                shard = shards[name]
                part = tensor.to(shard.device) if tensor.ndim == 0 else self.module.own_part(name, tensor)
                optimizer.state.setdefault(shard, {})[key] = part.clone()
        return optimizer, Progress(**read_json(checkpoint / STATE))

    @contextmanager
    def whole(self) -> Iterator[None]:
        """The weights are gathered on every process and dropped afterwards."""
        self.finish()
        try:
            yield
        finally:
            self._forget()

    def save(self, folder: Path, optimizer: Optimizer, progress: Progress, *, keep: int) -> None:
        """Every process writes its shards; the first one writes the rest and puts the folder in place."""
        from headswap.training.sharded_checkpoint import write_shards

        target = step_folder(folder, progress)
        with ExitStack() as stack:  # of the first process
            temporary = self.processes.from_first(lambda: stack.enter_context(atomic_folder(target, OWN_FILES)))
            write_shards(temporary, self.module, optimizer)
            self.processes.from_first(lambda: seal(temporary, progress))
        if self.processes.is_first:
            publish(target, progress, keep=keep)

    def finish(self) -> None:
        """Gather the weights on every process."""
        assign_weights(self.model, self.module.whole())

    def _forget(self) -> None:
        self.model.to("meta")


def place(
    bundle: Bundle, objective: Objective, machine: Machine, processes: Processes, settings: TrainingSettings
) -> Placement:
    """The placement for the processes of a run."""
    if not processes.is_sharded:
        return Replicated(bundle, objective, machine, processes)
    if isinstance(settings, OptimizerSettings) and settings.optimizer == "muon":
        raise SettingError(
            "optimizer is muon, which needs whole matrices, but with --parallel fsdp every process has only a part of "
            "each. Use --optimizer adamw, or --parallel ddp."
        )
    if getattr(settings, "adversarial_epsilon", 0.0):
        raise SettingError(
            "adversarial_epsilon needs two backward passes per step, which --parallel fsdp does not support. Use "
            "--parallel ddp."
        )
    return Sharded(bundle, objective, machine, processes)
