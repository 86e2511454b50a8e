"""Defaults that depend on the data or the shape: chosen by measurement, written into the recipe before a run starts."""

import math

from headswap.model.shape import Direction, Pooling

PRETRAIN_RATE_AT_256 = 1e-3
FINETUNE_RATE_AT_256 = 1e-4
SCRATCH_RATE_AT_256 = 3e-4
LITTLE_READ_RATE_AT_256 = 6e-4
FINETUNE_STEPS = 3_400
FINETUNE_EPOCHS = (3, 20)
FINETUNE_PATIENCE = 5
LEAST_TOKENS_A_PARAMETER = 3.0
DROPOUT_FROM_EPOCHS = ((10.0, 0.2), (4.0, 0.1))
POOLINGS: dict[Direction, Pooling] = {"causal": "later", "bidirectional": "mean"}
"""A token that has read all before it knows more than one at the beginning; where each has read all, none does."""
GRADUAL_AT_MOST = 0.5
"""Share of the epochs that layers may wait for their turn."""


def pretraining_rate(hidden_size: int) -> float:
    """Wider bases want smaller steps: proportional to 1 / sqrt(width), two digits kept."""
    return _two_digits(PRETRAIN_RATE_AT_256 * math.sqrt(256 / hidden_size))


def pretraining_dropout(epochs: float, *, is_causal: bool) -> float:
    """None while most of the text is new; some once it is read so often that it would be learnt by heart.

    Masks are drawn anew each time, so a masked objective never reads the same text twice; dropout made it worse.
    """
    return next((dropout for above, dropout in DROPOUT_FROM_EPOCHS if is_causal and epochs > above), 0.0)


def adaptation_rate(hidden_size: int) -> float:
    """Half the rate of a new base: what is known should bend, not break."""
    return _two_digits(pretraining_rate(hidden_size) / 2)


def finetuning_rate(hidden_size: int, *, tokens_a_parameter: float | None) -> float:
    """As for pre-training, from values of its own at width 256, by what the base has read (None: it is not known).

    A base that has read little has little to lose and much to learn, also beside one from scratch; of those that have
    read enough, wider ones want no smaller steps.
    """
    if has_read_enough(tokens_a_parameter):
        return _two_digits(FINETUNE_RATE_AT_256 * math.sqrt(256 / min(256, hidden_size)))
    rate = LITTLE_READ_RATE_AT_256 if tokens_a_parameter else SCRATCH_RATE_AT_256
    return _two_digits(rate * math.sqrt(256 / hidden_size))


def finetuning_epochs(num_examples: int, batch_size: int) -> float:
    """Enough epochs for about `FINETUNE_STEPS` steps, within bounds."""
    fewest, most = FINETUNE_EPOCHS
    return float(min(most, max(fewest, round(FINETUNE_STEPS * batch_size / num_examples))))


def has_read_enough(tokens_a_parameter: float | None) -> bool:
    """Whether a base has something to lose; one that does not tell is trusted to."""
    return tokens_a_parameter is None or tokens_a_parameter >= LEAST_TOKENS_A_PARAMETER


def moves_gradually(num_epochs: float, num_layers: int, *, tokens_a_parameter: float | None) -> bool:
    """Whether layers get their turn one an epoch: of a base with something to lose, and where all of them then move
    for half of the run at least."""
    return has_read_enough(tokens_a_parameter) and num_layers + 1 <= GRADUAL_AT_MOST * num_epochs


def behind_pretraining() -> list[float]:
    """What the fitted settings of a base come from: a change makes other results of the same recipe."""
    return [PRETRAIN_RATE_AT_256, *(number for pair in DROPOUT_FROM_EPOCHS for number in pair)]


def behind_finetuning() -> list[float | str]:
    """The same for a fine-tuning."""
    rates = [FINETUNE_RATE_AT_256, SCRATCH_RATE_AT_256, LITTLE_READ_RATE_AT_256, LEAST_TOKENS_A_PARAMETER]
    return [*rates, FINETUNE_STEPS, *FINETUNE_EPOCHS, FINETUNE_PATIENCE, *POOLINGS.values(), GRADUAL_AT_MOST]


def _two_digits(value: float) -> float:
    return float(f"{value:.1e}")
