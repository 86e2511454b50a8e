"""Metrics of classification: accuracy, F1, confusion matrix, log loss, calibration.

Macro-F1 is the mean of F1 over all labels of the training set, also over those that a test set does not have; F1 is 0
where a label neither occurs nor is predicted. It equals scikit-learn's
`f1_score(average="macro", labels=labels, zero_division=0)`.

With many classes a confusion matrix does not fit into a result: 5,000 classes have 25 million cells. Above
`MOST_CLASSES_OF_CONFUSION` classes a result has the most frequent confusions instead, and no matrix is computed.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headswap.metrics.intervals import f1_of_counts

log = logging.getLogger("headswap")

NUM_BINS = 15
MOST_CLASSES_OF_CONFUSION = 300
NUM_LARGEST_CONFUSIONS = 50


def confusion_matrix(predicted: np.ndarray, targets: np.ndarray, num_labels: int) -> np.ndarray:
    """Counts: the true label by row, the predicted label by column."""
    counts = np.zeros((num_labels, num_labels), dtype=np.int64)
    np.add.at(counts, (targets, predicted), 1)
    return counts


def largest_confusions(predicted: np.ndarray, targets: np.ndarray, labels: Sequence[str]) -> list[dict[str, Any]]:
    """The most frequent pairs of a true label and another, predicted label, with their number of texts."""
    is_wrong = predicted != targets
    pairs = Counter(zip(targets[is_wrong].tolist(), predicted[is_wrong].tolist(), strict=True))
    ranked = sorted(pairs.items(), key=lambda pair: (-pair[1], pair[0]))[:NUM_LARGEST_CONFUSIONS]
    return [{"truth": labels[truth], "predicted": labels[guess], "count": number} for (truth, guess), number in ranked]


def f1_scores(predicted: np.ndarray, targets: np.ndarray, num_labels: int) -> np.ndarray:
    """F1 of every label; nan where a label neither occurs nor is predicted."""
    counts = _counts(predicted, targets, num_labels)
    return np.where(counts[:, 1] + counts[:, 2] > 0, f1_of_counts(counts), np.nan)


def macro_f1(predicted: np.ndarray, targets: np.ndarray, num_labels: int) -> float:
    """The mean of F1 over all labels; 0 for a label that neither occurs nor is predicted."""
    return float(f1_of_counts(_counts(predicted, targets, num_labels)).mean())


def _counts(predicted: np.ndarray, targets: np.ndarray, num_labels: int) -> np.ndarray:
    """Per label: correct, predicted, true."""
    columns = (targets[predicted == targets], predicted, targets)
    return np.stack([np.bincount(column, minlength=num_labels) for column in columns], axis=1)


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
    predicted = probabilities.argmax(axis=1)
    return {
        "accuracy": float((predicted == targets).mean()),
        "macro_f1": macro_f1(predicted, targets, probabilities.shape[1]),
        "loss": log_loss(probabilities, targets),
        "ece": calibration(probabilities, targets)["ece"],
    }


def classification_metrics(chunks: Iterable[Tensor], targets: np.ndarray, labels: Sequence[str]) -> dict[str, Any]:
    """Loss, accuracy, macro-F1, confusions and the share of the largest class, from logits in chunks of texts."""
    predicted, loss, at = np.empty(len(targets), dtype=np.int64), 0.0, 0
    for logits in chunks:
        rows = slice(at, at + len(logits))
        predicted[rows] = logits.numpy().argmax(axis=1)
        mean = torch.nn.functional.cross_entropy(logits.double(), torch.as_tensor(targets[rows])).item()
        loss += mean * (len(logits) / len(targets))
        at = rows.stop
    num_true = np.bincount(targets, minlength=len(labels))
    scores = f1_scores(predicted, targets, len(labels))
    f1 = {label: float(value) for label, value in zip(labels, scores, strict=True) if not np.isnan(value)}
    return {
        "loss": loss,
        "accuracy": float((predicted == targets).sum() / len(targets)),
        "macro_f1": macro_f1(predicted, targets, len(labels)),
        "f1": f1,
        "majority_share": float(num_true.max() / len(targets)),
        **_confusions(predicted, targets, labels),
        "only_prediction": labels[predicted[0]] if (predicted == predicted[0]).all() else None,
        "labels": list(labels),
        "num_examples": len(targets),
    }


def _confusions(predicted: np.ndarray, targets: np.ndarray, labels: Sequence[str]) -> dict[str, Any]:
    """The confusion matrix (rows: truth); with many classes None, and the most frequent confusions."""
    if len(labels) <= MOST_CLASSES_OF_CONFUSION:
        return {"confusion": confusion_matrix(predicted, targets, len(labels)).tolist()}
    return {"confusion": None, "largest_confusions": largest_confusions(predicted, targets, labels)}


def warn_of_collapse(metrics: dict[str, Any], *, role: str) -> None:
    """Log a warning if one class is predicted for every text: accuracy then equals the share of that class."""
    if metrics and metrics["only_prediction"] is not None and metrics["majority_share"] < 1:
        log.warning(
            "The model predicts '%s' for all %d texts of %s. Try a lower learning rate, more warm-up or more epochs.",
            metrics["only_prediction"], metrics["num_examples"], role, extra={"has_collapsed": True},
        )  # fmt: skip
