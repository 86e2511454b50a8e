"""Temperature scaling: logits are divided by one number, which is fitted on validation (Guo et al., 2017).

A temperature above 1 makes probabilities less extreme. The order of the labels stays the same, and so every prediction.
"""

from typing import Any

import numpy as np

from headswap.metrics.classification import calibration, log_loss

LOWEST, HIGHEST = 0.05, 20.0


def softmax(logits: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    """The probabilities of logits divided by a temperature, in double precision."""
    scaled = logits.astype(np.float64) / temperature
    exponentials = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    return exponentials / exponentials.sum(axis=1, keepdims=True)


def fitted_temperature(logits: np.ndarray, targets: np.ndarray) -> float:
    """The temperature between 0.05 and 20 with the lowest log loss; the loss is convex in 1 / temperature.

    It is 1 if all predictions are right: the loss then falls with every lower temperature, and none can be fitted.
    """
    from scipy.optimize import minimize_scalar

    if (logits.argmax(axis=1) == targets).all():
        return 1.0

    def loss(inverse: float) -> float:
        return log_loss(softmax(logits, 1 / inverse), targets)

    found = minimize_scalar(loss, bounds=(1 / HIGHEST, 1 / LOWEST), method="bounded", options={"xatol": 1e-6})
    return round(float(1 / found.x), 4)


def calibration_effect(logits: np.ndarray, targets: np.ndarray, temperature: float) -> dict[str, Any]:
    """Log loss and calibration error of a set without and with the temperature."""
    found: dict[str, Any] = {"num_examples": len(targets)}
    for name, value in (("before", 1.0), ("after", temperature)):
        probabilities = softmax(logits, value)
        found[f"loss_{name}"] = log_loss(probabilities, targets)
        found[f"ece_{name}"] = calibration(probabilities, targets)["ece"]
    return found
