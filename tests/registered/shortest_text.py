"""A new baseline: the label of the shortest training text."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from headswap.baselines.classify import ClassifyBaseline
from headswap.data.records import Example


def probabilities(
    train: Sequence[Example], test: Sequence[Example], labels: Sequence[str]
) -> tuple[np.ndarray, dict[str, Any]]:
    """Probability 0.9 for the label of the shortest text of train."""
    found = min(train, key=lambda example: len(example.text)).label
    row = [0.9 if label == found else 0.1 / (len(labels) - 1) for label in labels]
    return np.tile(row, (len(test), 1)), {"label": found}


baseline = ClassifyBaseline("the label of the shortest training text", probabilities)
