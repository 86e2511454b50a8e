"""`--abstain-below P`: a classifier answers only where its highest probability is at least P."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from headswap.bundle.bundle import Bundle
from headswap.core.errors import SettingError
from headswap.metrics.abstention import abstention_point
from headswap.tasks.choose import task_of
from headswap.tasks.predictions import LabelPrediction, Prediction


def check_limit(bundle: Bundle, below: float | None) -> None:
    """Refuse a limit that is no probability, and a model that is no classifier."""
    if below is None:
        return
    task = task_of(bundle)
    if not task.one_label_per_text:
        raise SettingError(f"abstain_below is for classifiers, and this model is a {task.product}. Leave it out.")
    if not 0 < below <= 1:
        raise SettingError(
            f"abstain_below is {below:g}, but it is a probability above 0 and at most 1. Give one such as 0.8."
        )


def with_abstentions(predictions: Sequence[Prediction], below: float | None) -> list[Prediction]:
    """The predictions, with those below the limit marked as not answered."""
    if below is None:
        return list(predictions)
    return [one.with_limit(below) if isinstance(one, LabelPrediction) else one for one in predictions]


def abstention_metrics(
    predictions: Sequence[LabelPrediction], truth: Sequence[str], labels: Sequence[str], below: float
) -> dict[str, Any]:
    """Coverage, and accuracy of the answered texts, at a limit."""
    probabilities = np.array([[one.scores[label] for label in labels] for one in predictions])
    return asdict(abstention_point(probabilities, np.array([labels.index(name) for name in truth]), below))
