"""Metrics of classification: accuracy, F1, confusion matrix, calibration."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headswap.metrics.intervals import f1_of_counts

log = logging.getLogger("headswap")

NUM_BINS = 10


def confusion_matrix(scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Counts: the true label by row, the predicted label by column.

    `scores` are probabilities or logits, examples x labels; the label with the highest score is predicted.
    """
    size = scores.shape[1]
    counts = np.zeros((size, size), dtype=np.int64)
    np.add.at(counts, (targets, scores.argmax(axis=1)), 1)
    return counts


def f1_scores(confusion: np.ndarray) -> np.ndarray:
    """F1 of every label; nan where a label neither occurs nor is predicted."""
    counts = np.stack([confusion.diagonal(), confusion.sum(0), confusion.sum(1)], axis=1)
    return np.where(counts[:, 1] + counts[:, 2] > 0, f1_of_counts(counts), np.nan)


def calibration(probabilities: np.ndarray, targets: np.ndarray) -> dict[str, Any]:
    """Expected calibration error over ten bins of equal width, and the bins: confidence, accuracy, share of texts."""
    confidence = probabilities.max(axis=1)
    is_right = probabilities.argmax(axis=1) == targets
    bin_of_text = np.minimum((confidence * NUM_BINS).astype(int), NUM_BINS - 1)
    bins = []
    error = 0.0
    for number in range(NUM_BINS):
        is_inside = bin_of_text == number
        if not is_inside.any():
            continue
        share = float(is_inside.mean())
        mean_confidence, accuracy = float(confidence[is_inside].mean()), float(is_right[is_inside].mean())
        error += share * abs(mean_confidence - accuracy)
        bins.append({"confidence": mean_confidence, "accuracy": accuracy, "share": share})
    return {"ece": error, "bins": bins}


def scores(probabilities: np.ndarray, targets: np.ndarray) -> dict[str, float]:
    """Accuracy, macro-F1, log loss and calibration error of one run, from saved probabilities."""
    truth = np.clip(probabilities[np.arange(len(targets)), targets], 1e-12, 1.0)
    return {
        "accuracy": float((probabilities.argmax(axis=1) == targets).mean()),
        "macro_f1": float(np.nanmean(f1_scores(confusion_matrix(probabilities, targets)))),
        "loss": float(-np.log(truth).mean()),
        "ece": calibration(probabilities, targets)["ece"],
    }


def classification_metrics(logits: Tensor, targets: np.ndarray, labels: Sequence[str]) -> dict[str, Any]:
    """Loss, accuracy, macro-F1, the confusion matrix (rows: truth) and the share of the largest class, from logits."""
    confusion = confusion_matrix(logits.numpy(), targets)
    f1 = {label: float(value) for label, value in zip(labels, f1_scores(confusion), strict=True) if not np.isnan(value)}
    return {
        "loss": torch.nn.functional.cross_entropy(logits.double(), torch.as_tensor(targets)).item(),
        "accuracy": float(confusion.diagonal().sum() / len(targets)),
        "macro_f1": float(np.mean(list(f1.values()))),
        "f1": f1,
        "majority_share": float(confusion.sum(1).max() / len(targets)),
        "confusion": confusion.tolist(),
        "labels": list(labels),
        "num_examples": len(targets),
    }


def warn_of_collapse(metrics: dict[str, Any], *, role: str) -> None:
    """Log a warning if one class is predicted for every text: accuracy then equals the share of that class."""
    if not metrics:
        return
    confusion = np.array(metrics["confusion"])
    num_predicted, num_true = confusion.sum(0), confusion.sum(1)
    if (num_predicted > 0).sum() == 1 and (num_true > 0).sum() > 1:
        label = metrics["labels"][int(num_predicted.argmax())]
        log.warning(
            "The model predicts '%s' for all %d texts of %s. Try a lower learning rate, more warm-up or more epochs.",
            label, metrics["num_examples"], role,
        )  # fmt: skip
