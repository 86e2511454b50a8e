"""Metrics of classification: accuracy, F1, confusion matrix, log loss, calibration.

Macro-F1 is the mean of F1 over all labels of the training set, also over those that a test set does not have; F1 is 0
where a label neither occurs nor is predicted. It equals scikit-learn's
`f1_score(average="macro", labels=labels, zero_division=0)`.
"""

import logging
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headswap.metrics.intervals import f1_of_counts

log = logging.getLogger("headswap")

NUM_BINS = 15


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
    counts = _counts(confusion)
    return np.where(counts[:, 1] + counts[:, 2] > 0, f1_of_counts(counts), np.nan)


def macro_f1(confusion: np.ndarray) -> float:
    """The mean of F1 over all labels; 0 for a label that neither occurs nor is predicted."""
    return float(f1_of_counts(_counts(confusion)).mean())


def _counts(confusion: np.ndarray) -> np.ndarray:
    """Per label: correct, predicted, true."""
    return np.stack([confusion.diagonal(), confusion.sum(0), confusion.sum(1)], axis=1)


def log_loss(probabilities: np.ndarray, targets: np.ndarray) -> float:
    """The mean of -ln(probability of the true label); probabilities below 1e-12 count as 1e-12."""
    return float(-np.log(np.clip(probabilities[np.arange(len(targets)), targets], 1e-12, 1.0)).mean())


def calibration(probabilities: np.ndarray, targets: np.ndarray) -> dict[str, Any]:
    """Expected calibration error (ECE) and its bins: mean confidence, accuracy, share of the texts.

    The texts are sorted by confidence, the probability of the predicted label, and divided into 15 bins of equal
    numbers of texts. Texts of equal confidence are in one bin, so there can be fewer bins. ECE is the mean of
    |confidence - accuracy| over the bins, weighted by their numbers of texts.
    """
    confidence = probabilities.max(axis=1)
    order = np.argsort(confidence, kind="stable")
    ranked, is_right = confidence[order], (probabilities.argmax(axis=1) == targets)[order]
    ends = np.arange(1, NUM_BINS + 1) * len(ranked) // NUM_BINS
    ends = np.unique(np.searchsorted(ranked, ranked[ends[ends > 0] - 1], side="right"))
    bins = []
    for start, end in pairwise([0, *ends.tolist()]):
        mean, accuracy = float(ranked[start:end].mean()), float(is_right[start:end].mean())
        bins.append({"confidence": mean, "accuracy": accuracy, "share": (end - start) / len(ranked)})
    return {"ece": sum(one["share"] * abs(one["confidence"] - one["accuracy"]) for one in bins), "bins": bins}


def scores(probabilities: np.ndarray, targets: np.ndarray) -> dict[str, float]:
    """Accuracy, macro-F1, log loss and calibration error of one run, from saved probabilities."""
    return {
        "accuracy": float((probabilities.argmax(axis=1) == targets).mean()),
        "macro_f1": macro_f1(confusion_matrix(probabilities, targets)),
        "loss": log_loss(probabilities, targets),
        "ece": calibration(probabilities, targets)["ece"],
    }


def classification_metrics(logits: Tensor, targets: np.ndarray, labels: Sequence[str]) -> dict[str, Any]:
    """Loss, accuracy, macro-F1, the confusion matrix (rows: truth) and the share of the largest class, from logits."""
    confusion = confusion_matrix(logits.numpy(), targets)
    f1 = {label: float(value) for label, value in zip(labels, f1_scores(confusion), strict=True) if not np.isnan(value)}
    return {
        "loss": torch.nn.functional.cross_entropy(logits.double(), torch.as_tensor(targets)).item(),
        "accuracy": float(confusion.diagonal().sum() / len(targets)),
        "macro_f1": macro_f1(confusion),
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
