"""The learning rate as a function of the step."""

import pytest

from headswap.training.config import TrainingSettings
from headswap.training.schedule import learning_rate_at, warmup_length


def rates(kind: str, warmup: float, total: int = 10) -> list[float]:
    settings = TrainingSettings(learning_rate=1.0, lr_scheduler_type=kind, warmup_steps=warmup)
    return [learning_rate_at(step, total, settings) for step in range(total)]


def test_warm_up_rises_to_the_peak_and_starts_above_zero() -> None:
    assert rates("constant", 4) == [0.25, 0.5, 0.75, 1, 1, 1, 1, 1, 1, 1]


def test_warmup_steps_below_one_are_a_fraction_of_all_steps() -> None:
    assert warmup_length(200, 0.06) == 12
    assert warmup_length(200, 6) == 6


def test_linear_and_cosine_decay_from_the_peak() -> None:
    linear, cosine = rates("linear", 0), rates("cosine", 0)
    assert linear == pytest.approx([1 - step / 10 for step in range(10)])
    assert cosine[0] == 1
    assert cosine[5] == pytest.approx(0.5)
    assert cosine == sorted(cosine, reverse=True)
