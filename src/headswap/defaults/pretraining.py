"""Defaults of pre-training and of adaptation: learning rate, optimizer, weight decay, dropout, epochs."""

import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from headswap.model.shape import FITTED_DROPOUT

if TYPE_CHECKING:
    from headswap.pretraining.config import AdaptRecipe, PretrainRecipe

log = logging.getLogger("headswap")
PRETRAIN_RATE_AT_256 = 1e-3
"""Peak learning rate of a new base of width 256; other widths: times sqrt(256 / width)."""
DROPOUT_FROM_EPOCHS = ((10.0, 0.2), (4.0, 0.1))
"""(epochs, dropout): dropout of a causal base that sees its corpus more often than that."""
ADAPT_TOKENS = 50_000_000
"""An adaptation reads about this many tokens, within the bounds of `ADAPT_EPOCHS`: few texts are read many times."""
ADAPT_EPOCHS = (1.0, 30.0)
"""The fewest and the most passes over the new text (docs/log.md has what it was chosen on)."""
ADAPT_RATE_FACTOR = 0.5
"""Peak learning rate of an adaptation, relative to that of a new base."""
PRETRAIN_WEIGHT_DECAY = 0.05
REPEATED_FROM_EPOCHS = 5.0
"""A new causal base of `REPEATED_PRESETS` that reads its corpus more often than that on a GPU is trained with Muon and
the three values below; measured at 5.3 and at 10.3 epochs (docs/results.md)."""
REPEATED_PRESETS = frozenset({"modern"})
REPEATED_RATE_FACTOR = 2.0
REPEATED_WEIGHT_DECAY = 2.0
REPEATED_DROPOUT = 0.1


@dataclass(frozen=True)
class PretrainingFacts:
    """What the defaults of pre-training depend on."""

    hidden_size: int
    max_length: int
    is_new: bool
    """Whether the base is new; False where an existing base is adapted."""
    is_causal: bool
    is_gpu: bool = False
    epochs: float | None = None
    """Passes over the corpus, once the number of steps is known."""


def resolve_pretraining(
    recipe: "PretrainRecipe | AdaptRecipe", facts: PretrainingFacts
) -> "PretrainRecipe | AdaptRecipe":
    """The recipe with every open setting filled in.

    Without `epochs` it is the recipe for a speed test: the slower optimizer where it may be used, and no dropout.
    """
    training, is_repeated = recipe.training, has_settings_for_repeats(recipe, facts)
    default_rate = pretraining_rate if facts.is_new else adaptation_rate
    rate = default_rate(facts.hidden_size) * (REPEATED_RATE_FACTOR if is_repeated else 1.0)
    decay = REPEATED_WEIGHT_DECAY if is_repeated else PRETRAIN_WEIGHT_DECAY
    recipe = recipe.changed(
        training=training.changed(
            learning_rate=training.learning_rate or rate,
            weight_decay=decay if training.weight_decay is None else training.weight_decay,
            optimizer=training.optimizer or ("muon" if is_repeated else "adamw"),
            max_length=facts.max_length,
        )
    )
    if facts.epochs is None or recipe.verb == "adapt":
        return recipe
    if is_repeated:
        log.info(
            "The run has %.1f epochs over the corpus, so it uses Muon, a learning rate of %g and a weight decay of %g; "
            "change them with --optimizer, --learning-rate and --weight-decay.",
            facts.epochs, rate, decay,
        )  # fmt: skip
    if recipe.model.dropout is not None or recipe.model.preset not in FITTED_DROPOUT:
        return recipe
    dropout = REPEATED_DROPOUT if is_repeated else pretraining_dropout(facts.epochs, is_causal=facts.is_causal)
    if dropout:
        log.info(
            "The run has %.1f epochs over the corpus, so dropout is %g; change it with --dropout.",
            facts.epochs,
            dropout,
        )
    return recipe.changed(model=recipe.model.changed(dropout=dropout))


def has_settings_for_repeats(recipe: "PretrainRecipe | AdaptRecipe", facts: PretrainingFacts) -> bool:
    """Whether Muon, a higher rate and a far larger weight decay are the defaults: the text is read many times.

    They were measured together, so a run that gives one of them gets none of the others.
    """
    training = recipe.training
    is_open = training.learning_rate is None and training.weight_decay is None and training.optimizer != "adamw"
    is_measured = recipe.verb == "pretrain" and recipe.model.preset in REPEATED_PRESETS
    is_often = facts.epochs is None or facts.epochs > REPEATED_FROM_EPOCHS
    return is_open and is_measured and is_often and facts.is_new and facts.is_causal and facts.is_gpu


def pretraining_rate(hidden_size: int) -> float:
    """Proportional to 1 / sqrt(width), two digits kept."""
    return two_digits(PRETRAIN_RATE_AT_256 * math.sqrt(256 / hidden_size))


def pretraining_dropout(epochs: float, *, is_causal: bool) -> float:
    """0 for few epochs, more for many epochs over the same text.

    A masked objective draws new masks in every epoch, so its inputs never repeat; dropout made it worse.
    """
    return next((dropout for above, dropout in DROPOUT_FROM_EPOCHS if is_causal and epochs > above), 0.0)


def adaptation_rate(hidden_size: int) -> float:
    """Half of the rate of a new base."""
    return two_digits(pretraining_rate(hidden_size) * ADAPT_RATE_FACTOR)


def adaptation_epochs(num_tokens: int) -> float:
    """Passes over a text of so many tokens: many over a short one, few over a long one."""
    fewest, most = ADAPT_EPOCHS
    return round(min(most, max(fewest, ADAPT_TOKENS / max(1, num_tokens))), 1)


def values_behind_pretraining() -> list[float]:
    """The values that a pre-training's open settings come from; a study's job id contains them."""
    repeated = [REPEATED_FROM_EPOCHS, REPEATED_RATE_FACTOR, REPEATED_WEIGHT_DECAY, REPEATED_DROPOUT]
    dropout = [number for pair in DROPOUT_FROM_EPOCHS for number in pair]
    return [PRETRAIN_RATE_AT_256, PRETRAIN_WEIGHT_DECAY, *dropout, *repeated]


def values_behind_adaptation() -> list[float]:
    """The same for an adaptation."""
    return [PRETRAIN_RATE_AT_256, ADAPT_RATE_FACTOR, PRETRAIN_WEIGHT_DECAY, ADAPT_TOKENS, *ADAPT_EPOCHS]


def two_digits(value: float) -> float:
    return float(f"{value:.1e}")
