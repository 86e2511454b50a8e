"""What a recipe of pre-training leaves open, settled before the first step: learning rate, number of steps, dropout.

Whatever limit was given becomes a number of steps, once; minutes do so by a probe (probe.py). The fitted values
themselves are in fitted.py.
"""

import copy
import logging
import math

from headswap.core.settings import load_recipe
from headswap.defaults import adaptation_rate, pretraining_dropout, pretraining_rate
from headswap.model.shape import FITTED_DROPOUT
from headswap.model.text_model import TextModel, build_model
from headswap.pretraining.config import AdaptRecipe, PretrainRecipe, PretrainTraining
from headswap.pretraining.corpus import CorpusParts
from headswap.pretraining.starting_point import Origin
from headswap.pretraining.time_budget import EVALUATION_COST, steps_in
from headswap.training.compile import compile_layers, pays_off
from headswap.training.device import Machine
from headswap.training.distributed import Processes
from headswap.training.loop import Trainee
from headswap.training.run_folder import Run

log = logging.getLogger("headswap")
AnyRecipe = PretrainRecipe | AdaptRecipe
MOST_EVALUATIONS = 10


def settle(
    recipe: AnyRecipe, origin: Origin, parts: CorpusParts, *, run: Run, machine: Machine, processes: Processes
) -> tuple[AnyRecipe, int, TextModel]:
    """The recipe with every value that was left to us filled in, its number of steps, and the model to train."""
    fitted = pretraining_rate if origin.source is None else adaptation_rate
    rate = recipe.training.learning_rate or fitted(origin.model.shape.base.hidden_size)
    recipe = recipe.changed(training=recipe.training.changed(learning_rate=rate, max_length=parts.max_length))
    training, steps = _with_steps(recipe, origin, parts, run=run, machine=machine, processes=processes)
    recipe = recipe.changed(training=training)
    recipe, model = _with_dropout(recipe, origin, steps / parts.steps_per_epoch)
    return recipe, steps, model


def num_evaluations(steps: int, parts: CorpusParts) -> int:
    """Ten, or fewer where they would cost more than a tenth of the training."""
    tokens = steps * parts.rows.num_tokens * parts.batch_size / max(1, len(parts.rows))
    affordable = tokens / 10 / EVALUATION_COST / max(1, parts.held_out.num_tokens if parts.held_out else 1)
    return int(min(MOST_EVALUATIONS, max(2, affordable)))


def _with_steps(
    recipe: AnyRecipe, origin: Origin, parts: CorpusParts, *, run: Run, machine: Machine, processes: Processes
) -> tuple[PretrainTraining, int]:
    """The training settings with their limit, and the steps that it means.

    Only a probe's steps are written beside the limit that was given: a recipe with two limits cannot be run again.
    """
    training, per_epoch = recipe.training, parts.steps_per_epoch
    if training.max_steps is not None:
        return training, training.max_steps
    if training.max_tokens is not None:
        return training, math.ceil(training.max_tokens * per_epoch / parts.rows.num_tokens)
    if (minutes := training.max_minutes) is not None:
        steps = processes.from_first(
            lambda: (
                _planned_steps(recipe, minutes, run)
                or _probed_steps(minutes, origin, parts, settings=training, machine=machine, world=processes.world)
            )
        )
        return training.changed(max_steps=steps), steps
    epochs = training.num_train_epochs or 1.0
    return training.changed(num_train_epochs=epochs), math.ceil(epochs * per_epoch)


def _planned_steps(recipe: AnyRecipe, minutes: float, run: Run) -> int | None:
    """The steps a probe found when this run was first started; as many more as the limit was made longer."""
    file = run.path / "recipe.toml"
    if not file.exists() or run.replaces_another:
        return None
    saved = load_recipe(type(recipe), file).training
    if saved.max_steps is None or saved.max_minutes is None:
        return saved.max_steps
    return int(saved.max_steps * minutes / saved.max_minutes)


def _probed_steps(
    minutes: float, origin: Origin, parts: CorpusParts, *, settings: PretrainTraining, machine: Machine, world: int
) -> int:
    """Turn minutes into steps, once, on a copy of the model; the clock is not read again."""
    trainee = Trainee(copy.deepcopy(origin.model).to(machine.device), origin.objective)
    if pays_off(origin.model, machine, minutes=minutes):
        compile_layers(trainee.model, machine.device)
    return steps_in(
        minutes,
        trainee,
        parts.batches(),
        settings=settings,
        machine=machine,
        world=world,
        evaluation_tokens=parts.held_out.num_tokens if parts.held_out else 0,
        num_evaluations=lambda steps: 1 + num_evaluations(steps, parts),
    )


def _with_dropout(recipe: AnyRecipe, origin: Origin, epochs: float) -> tuple[AnyRecipe, TextModel]:
    """Recipe and model with the dropout that fits the epochs, where none is stated; the weights are the same."""
    model = origin.model
    if not isinstance(recipe, PretrainRecipe) or recipe.model.dropout is not None:
        return recipe, model
    if recipe.model.preset not in FITTED_DROPOUT:
        return recipe, model
    dropout = pretraining_dropout(epochs, is_causal=origin.objective.is_likelihood)
    recipe = recipe.changed(model=recipe.model.changed(dropout=dropout))
    if not dropout:
        return recipe, model
    log.info("The corpus is read %.1f times, so %g of the units are dropped (--dropout).", epochs, dropout)
    shape = model.shape.changed(base=model.shape.base.changed(dropout=dropout))
    return recipe, build_model(shape, seed=recipe.training.seed)
