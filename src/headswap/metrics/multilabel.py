"""Metrics and thresholds of multi-label classification."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from headswap.metrics.intervals import f1_of_counts, interval_of

THRESHOLD = 0.5


def present_labels(names: Sequence[Sequence[str]], labels: Sequence[str]) -> np.ndarray:
    """Which of the labels each text has, texts x labels."""
    numbers = {label: number for number, label in enumerate(labels)}
    present = np.zeros((len(names), len(labels)), dtype=bool)
    for row, own in zip(present, names, strict=True):
        row[[numbers[name] for name in own]] = True
    return present


def best_thresholds(scores: np.ndarray, truth: np.ndarray, metric: str) -> np.ndarray:
    """The thresholds with the best F1, one per label; the one nearest to 0.5 on a tie, 0.5 if no label occurs.

    With macro-F1 as the metric each label has its own. Otherwise all labels share the one with the best micro-F1: the
    best threshold of a rare label is often so low that most texts get the label, which costs micro-F1 (docs/log.md).
    """
    if metric == "macro_f1":
        return np.array([_best_threshold(scores[:, label], truth[:, label]) for label in range(scores.shape[1])])
    return np.full(scores.shape[1], _best_threshold(scores.ravel(), truth.ravel()))


def _best_threshold(scores: np.ndarray, truth: np.ndarray) -> float:
    if not truth.any():
        return THRESHOLD
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    hits = np.cumsum(truth[order])
    f1 = 2 * hits / (np.arange(1, len(scores) + 1) + truth.sum())
    below = np.append(ranked[1:], 0.0)
    can_cut = np.append(ranked[:-1] > ranked[1:], True)  # equal scores cannot be separated
    cuts = (ranked + below) / 2
    cuts = np.where((below < THRESHOLD) & (ranked >= THRESHOLD), THRESHOLD, cuts)
    best = can_cut & (f1 >= f1[can_cut].max())
    return float(min(cuts[best], key=lambda cut: abs(cut - THRESHOLD)))


def multilabel_metrics(
    truth: np.ndarray, predicted: np.ndarray, labels: Sequence[str], *, is_final: bool = False
) -> dict[str, Any]:
    """Micro-F1 over all (text, label) pairs, macro-F1 over labels, and the share of texts with all labels right.

    Macro-F1 is defined as in classification: the mean over all labels of the training set, 0 for a label that neither
    occurs nor is predicted. `f1` has no entry for such a label.
    """
    parts = (truth & predicted, predicted, truth)
    by_label = np.stack([part.sum(axis=0) for part in parts], axis=1)
    by_text = np.stack([part.sum(axis=1) for part in parts], axis=1)
    f1 = f1_of_counts(by_label)
    has_f1 = by_label[:, 1] + by_label[:, 2] > 0  # a label that neither occurs nor is predicted has no F1
    total = by_text.sum(axis=0)
    metrics = {
        "micro_f1": float(f1_of_counts(total)),
        "macro_f1": float(f1.mean()),
        "precision": float(total[0] / max(1, total[1])),
        "recall": float(total[0] / max(1, total[2])),
        "exact_match": float((truth == predicted).all(axis=1).mean()),
        "f1": {label: float(f1[number]) for number, label in enumerate(labels) if has_f1[number]},
        "labels": list(labels),
        "num_examples": len(truth),
    }
    if is_final:
        metrics["interval"] = interval_of("micro_f1", by_text, f1_of_counts)
    return metrics
