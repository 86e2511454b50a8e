"""What predictions are worth: accuracy, F1, confusion, calibration. Pure functions on probabilities and truth."""

from typing import Any

import numpy as np

NUM_BINS = 10


def confusion_matrix(probabilities: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Counts, truth by row, prediction by column."""
    size = probabilities.shape[1]
    counts = np.zeros((size, size), dtype=np.int64)
    np.add.at(counts, (targets, probabilities.argmax(axis=1)), 1)
    return counts


def f1_scores(confusion: np.ndarray) -> np.ndarray:
    """F1 of every label; nan where a label neither occurs nor is predicted."""
    hits, truth, chosen = confusion.diagonal(), confusion.sum(1), confusion.sum(0)
    with np.errstate(invalid="ignore"):
        return np.where(truth + chosen > 0, 2 * hits / np.maximum(1, truth + chosen), np.nan)


def calibration(probabilities: np.ndarray, targets: np.ndarray) -> dict[str, Any]:
    """Expected calibration error over ten bins of equal width, and the bins: confidence, accuracy, share of texts."""
    confidence = probabilities.max(axis=1)
    is_right = probabilities.argmax(axis=1) == targets
    places = np.minimum((confidence * NUM_BINS).astype(int), NUM_BINS - 1)
    bins = []
    error = 0.0
    for place in range(NUM_BINS):
        inside = places == place
        if not inside.any():
            continue
        share = float(inside.mean())
        sure, right = float(confidence[inside].mean()), float(is_right[inside].mean())
        error += share * abs(sure - right)
        bins.append({"confidence": sure, "accuracy": right, "share": share})
    return {"ece": error, "bins": bins}


def scores(probabilities: np.ndarray, targets: np.ndarray) -> dict[str, float]:
    """Accuracy, macro-F1, log loss and calibration error of one run."""
    truth = np.clip(probabilities[np.arange(len(targets)), targets], 1e-12, 1.0)
    return {
        "accuracy": float((probabilities.argmax(axis=1) == targets).mean()),
        "macro_f1": float(np.nanmean(f1_scores(confusion_matrix(probabilities, targets)))),
        "loss": float(-np.log(truth).mean()),
        "ece": calibration(probabilities, targets)["ece"],
    }
