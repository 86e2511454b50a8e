"""The number of steps of a pre-training: every limit (steps, tokens, epochs, minutes) becomes a number of steps, once.

Minutes are converted by a short probe before the run, so the clock is never read during it. The probed steps are
saved in the recipe beside the minutes.
"""

import copy
import logging
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from headswap.core.settings import load_recipe
from headswap.defaults.pretraining import adaptation_epochs
from headswap.pretraining.config import AdaptRecipe, PretrainRecipe, PretrainTraining
from headswap.pretraining.corpus import CorpusParts
from headswap.pretraining.starting_point import StartingPoint
from headswap.training.compile import compile_layers, pays_off
from headswap.training.config import TrainingSettings
from headswap.training.device import Machine
from headswap.training.distributed import Processes
from headswap.training.gradients import BatchSource, LossModule
from headswap.training.loop import StepRecord, train
from headswap.training.optimizer import make_optimizer
from headswap.training.run_folder import RunFolder

log = logging.getLogger("headswap")
MOST_EVALUATIONS = 10
EVALUATION_COST = 1 / 3
"""Cost of an evaluation relative to a training step on as many tokens."""
PROBE_SECONDS = 4.0
WARM_UP = {"cpu": 2, "cuda": 20}
"""Steps that the probe does not count; on CUDA graphs are captured in some of them."""
STEPS_BETWEEN_READS = 4


@dataclass(frozen=True, slots=True)
class TimedSteps:
    """How long some steps took."""

    steps: int
    tokens: int
    seconds: float


def time_steps(records: Iterator[StepRecord], machine: Machine) -> TimedSteps:
    """Take steps for some seconds, after some that are not counted."""
    for _ in range(WARM_UP[machine.device.type]):
        next(records).loss.item()
    start, steps, tokens = time.perf_counter(), 0, 0
    while not steps or time.perf_counter() - start < PROBE_SECONDS:
        for _ in range(STEPS_BETWEEN_READS):
            record = next(records)
            tokens += int(record.num_tokens)
        record.loss.item()  # waits for the device after several steps, as a run does
        steps += STEPS_BETWEEN_READS
    return TimedSteps(steps, tokens, time.perf_counter() - start)


def num_steps(
    recipe: PretrainRecipe | AdaptRecipe,
    start: StartingPoint,
    parts: CorpusParts,
    *,
    run: RunFolder,
    machine: Machine,
    processes: Processes,
) -> tuple[PretrainTraining, int]:
    """The training settings with their limit, and the number of steps.

    Only the steps of a probe are written beside the limit that was given: a recipe with two limits cannot be run again.
    """
    training, per_epoch = recipe.training, parts.steps_per_epoch
    if training.max_steps is not None:
        return training, training.max_steps
    if training.max_tokens is not None:
        return training, math.ceil(training.max_tokens * per_epoch / parts.rows.num_tokens)
    if (minutes := training.max_minutes) is not None:
        steps = processes.from_first(
            lambda: (
                _saved_steps(recipe, minutes, run)
                or probed_steps(minutes, start, parts, settings=training, machine=machine, processes=processes)
            )
        )
        if recipe.verb == "adapt":
            steps = min(steps, math.ceil(adaptation_epochs(parts.rows.num_tokens) * per_epoch))
        return training.changed(max_steps=steps), steps
    default = adaptation_epochs(parts.rows.num_tokens) if recipe.verb == "adapt" else 1.0
    epochs = training.num_train_epochs or default
    return training.changed(num_train_epochs=epochs), math.ceil(epochs * per_epoch)


def num_evaluations(steps: int, parts: CorpusParts) -> int:
    """Ten, or fewer where they would cost more than a tenth of the training."""
    tokens = steps * parts.rows.num_tokens * parts.batch_size / max(1, len(parts.rows))
    affordable = tokens / 10 / EVALUATION_COST / max(1, parts.held_out.num_tokens if parts.held_out else 1)
    return int(min(MOST_EVALUATIONS, max(2, affordable)))


def _saved_steps(recipe: PretrainRecipe | AdaptRecipe, minutes: float, run: RunFolder) -> int | None:
    """The steps that a probe found when this run was first started, scaled if the limit was raised since."""
    file = run.path / "recipe.toml"
    if not file.exists() or run.replaces_another:
        return None
    saved = load_recipe(type(recipe), file).training
    if saved.max_steps is None or saved.max_minutes is None:
        return saved.max_steps
    return round(saved.max_steps * (minutes / saved.max_minutes))


def probed_steps(
    minutes: float,
    start: StartingPoint,
    parts: CorpusParts,
    *,
    settings: PretrainTraining,
    machine: Machine,
    processes: Processes,
) -> int:
    """Convert minutes to steps on a copy of the model. The copy is not sharded: it must fit on one device."""
    module = LossModule(copy.deepcopy(start.model).to(machine.device), start.objective)
    if not processes.is_sharded and pays_off(start.model, machine, minutes=minutes):
        compile_layers(module.model, machine.device)
    return steps_in(
        minutes,
        module,
        parts.batches(),
        settings=settings,
        machine=machine,
        world=processes.world,
        evaluation_tokens=parts.held_out.num_tokens if parts.held_out else 0,
        num_evaluations=lambda steps: 1 + num_evaluations(steps, parts),
    )


def steps_in(
    minutes: float,
    module: LossModule,
    source: BatchSource,
    *,
    settings: TrainingSettings,
    machine: Machine,
    world: int,
    evaluation_tokens: int,
    num_evaluations: Callable[[int], int],
) -> int:
    """How many steps fit into some minutes, including the time for evaluations."""
    records = train(
        module, make_optimizer(module.model, settings), source, settings=settings, machine=machine,
        processes=Processes(), first_step=0, total_steps=1_000_000, may_capture=world == 1,
    )  # fmt: skip
    timed = time_steps(records, machine)
    steps, tokens, per_step = timed.steps, timed.tokens, timed.seconds / timed.steps / world
    evaluation = evaluation_tokens * per_step * steps / tokens * EVALUATION_COST * world
    planned = max(1, int(minutes * 60 / per_step))
    found = max(1, int((minutes * 60 - num_evaluations(planned) * evaluation) / per_step))
    log.info(
        "Speed test: %d steps took %.2f s per step, so %.3g minutes are %d steps.", steps, per_step, minutes, found
    )
    return found
