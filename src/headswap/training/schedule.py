"""The learning rate as a pure function of the step."""

import math

from headswap.training.config import TrainingSettings


def learning_rate_at(step: int, total_steps: int, settings: TrainingSettings) -> float:
    """The rate of optimizer step `step` (from 0): linear warm-up, then the schedule."""
    assert settings.learning_rate is not None
    warmup = warmup_length(total_steps, settings.warmup_steps)
    if step < warmup:
        return settings.learning_rate * (step + 1) / warmup
    done = (step - warmup) / max(1, total_steps - warmup)
    return (
        settings.learning_rate
        * {
            "constant": 1.0,
            "linear": max(0.0, 1.0 - done),
            "cosine": 0.5 * (1.0 + math.cos(math.pi * min(1.0, done))),
        }[settings.lr_scheduler_type]
    )


def warmup_length(total_steps: int, warmup_steps: float) -> int:
    """Number of warm-up steps; a value below 1 is a fraction of all steps."""
    return math.ceil(warmup_steps * total_steps) if warmup_steps < 1 else int(warmup_steps)
