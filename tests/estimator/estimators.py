"""Tiny estimators that fit in half a second, and their data."""

from collections.abc import Callable
from typing import Any

import numpy as np

import headswap as hs
from tiny import SMALL, sentences

OWN = ("max_length", "device", "threads")
QUICK: dict[str, Any] = {
    **{name: SMALL[name] for name in OWN},
    "max_steps": 2,
    "settings": {name: value for name, value in SMALL.items() if name not in OWN},
}
"""Parameters of a model of one layer that is trained for two steps."""
KINDS: dict[str, Callable[..., Any]] = {
    "classifier": hs.TextClassifier,
    "regressor": hs.TextRegressor,
    "embedder": hs.TextEmbedder,
}
ROWS = sentences(24, seed=3)
X = [text for text, _ in ROWS]
LABELS = [label for _, label in ROWS]
NUMBERS = [float(len(text.split())) for text in X]
Y: dict[str, list[Any]] = {"classifier": LABELS, "regressor": NUMBERS, "embedder": LABELS}


def make(kind: str, **changes: Any) -> Any:
    """An estimator that is not fitted."""
    return KINDS[kind](**(QUICK | changes))


def output(estimator: Any, texts: Any) -> np.ndarray:
    """What an estimator computes for texts, as numbers."""
    for method in ("predict_proba", "transform", "predict"):
        if hasattr(estimator, method):
            return np.asarray(getattr(estimator, method)(texts))
    raise AssertionError("an estimator predicts or transforms")
