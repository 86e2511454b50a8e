"""Metrics of classification: accuracy, F1, confusion matrix, calibration."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

log = logging.getLogger("headswap")

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


def classification_metrics(logits: Tensor, targets: np.ndarray, labels: Sequence[str]) -> dict[str, Any]:
    """Loss, accuracy, macro-F1, the confusion matrix (rows: truth) and the share of the largest class."""
    num_labels = len(labels)
    predicted = logits.argmax(dim=1).numpy()
    confusion = np.zeros((num_labels, num_labels), dtype=np.int64)
    np.add.at(confusion, (targets, predicted), 1)
    hits, truth, chosen = confusion.diagonal(), confusion.sum(1), confusion.sum(0)
    f1 = 2 * hits / np.maximum(1, truth + chosen)
    is_there = truth + chosen > 0  # a label that neither occurs nor is predicted has no F1
    loss = torch.nn.functional.cross_entropy(logits.double(), torch.as_tensor(targets)).item()
    return {
        "loss": loss,
        "accuracy": float(hits.sum() / len(targets)),
        "macro_f1": float(f1[is_there].mean()),
        "f1": {label: float(f1[index]) for index, label in enumerate(labels) if is_there[index]},
        "majority_share": float(truth.max() / len(targets)),
        "confusion": confusion.tolist(),
        "labels": list(labels),
        "num_examples": len(targets),
    }


def warn_of_collapse(metrics: dict[str, Any], *, role: str) -> None:
    """Say so if one class is predicted for everything: accuracy is then only the share of that class."""
    if not metrics:
        return
    confusion = np.array(metrics["confusion"])
    chosen, truth = confusion.sum(0), confusion.sum(1)
    if (chosen > 0).sum() == 1 and (truth > 0).sum() > 1:
        label = metrics["labels"][int(chosen.argmax())]
        log.warning(
            "The model predicts '%s' for all %d texts of %s. Try a lower learning rate, more warm-up or more epochs.",
            label, metrics["num_examples"], role,
        )  # fmt: skip
