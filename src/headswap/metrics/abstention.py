"""Abstention: a classifier answers only where its highest probability reaches a limit."""

from dataclasses import dataclass

import numpy as np

LIMITS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""The limits of the table of a study."""


@dataclass(frozen=True)
class AbstentionPoint:
    """How many texts are answered at one limit, and how many of the answers are right."""

    below: float
    """Texts whose highest probability is below this limit are not answered."""
    coverage: float
    """Share of the texts that are answered."""
    accuracy: float | None
    """Share of the answers that are right; None if no text is answered."""
    num_abstained: int


def abstention_point(probabilities: np.ndarray, targets: np.ndarray, below: float) -> AbstentionPoint:
    """Coverage and accuracy at one limit."""
    is_answered = probabilities.max(axis=1) >= below
    is_right = probabilities.argmax(axis=1) == targets
    accuracy = float(is_right[is_answered].mean()) if is_answered.any() else None
    return AbstentionPoint(below, float(is_answered.mean()), accuracy, int((~is_answered).sum()))
