"""The score of one run as one value per test text, whose mean is the score.

A text is one example: also a pair of texts, a sentence with its tags, or a question. Accuracy and the F1 and the exact
match of answers are means over texts. F1 of labels and entities, R2 and Pearson's correlation are not: their values are
jackknife pseudo-values, `n * score - (n - 1) * score without the text`, shifted so that their mean is the score. If
texts belong to groups, such as the texts of one author, there is one value per group, because texts of one group are
not independent.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from headswap.finetuning.prediction_file import AnyPredictions, Predictions
from headswap.metrics.intervals import f1_of_counts

CONSTANT = 1e-12
"""Relative range or variance below which predictions or true values count as constant."""


def _accuracy(predictions: Predictions) -> np.ndarray:
    return predictions.is_right.astype(float)


def _macro_f1(predictions: Predictions) -> np.ndarray:
    return macro_f1_values(
        predictions.targets, predictions.probabilities.argmax(axis=1), num_labels=len(predictions.labels)
    )


def macro_f1_values(targets: np.ndarray, predicted: np.ndarray, *, num_labels: int) -> np.ndarray:
    """Pseudo-values of macro-F1. Without a text only the F1 of its true and of its predicted label changes."""
    size, is_right = len(targets), targets == predicted
    right = np.bincount(targets[is_right], minlength=num_labels)
    counted = np.bincount(targets, minlength=num_labels) + np.bincount(predicted, minlength=num_labels)
    f1 = _f1(right, counted)
    without_right = _f1(right - 1, counted - 2) - f1  # change of F1 without a text that is predicted correctly
    without_wrong = _f1(right, counted - 1) - f1  # without its true label, or without its predicted label
    changes = np.where(is_right, without_right[targets], without_wrong[targets] + without_wrong[predicted])
    values = f1.mean() - (size - 1) * changes / num_labels
    return values + (f1.mean() - values.mean())


def _f1(right: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """F1 per label; 0 for a label that neither occurs nor is predicted."""
    return 2 * right.clip(0) / np.maximum(counted, 1)


def r2_values(targets: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Pseudo-values of R2: without a text its squared error and its share of the variance are left out.

    Zeros for constant true values, which have no variance to explain.
    """
    if _is_constant(targets):
        return np.zeros(len(targets))
    size, errors = len(targets), np.square(predicted - targets)
    squares = np.square(targets - targets.mean())
    score = 1 - errors.sum() / squares.sum()
    rest = squares.sum() - squares * size / (size - 1)
    is_defined = rest > CONSTANT * squares.sum()  # not without the only text that differs from the others
    without = np.where(is_defined, 1 - (errors.sum() - errors) / np.where(is_defined, rest, 1), 0)
    return _pseudo_values(score, without)


def pearson_values(targets: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """Pseudo-values of Pearson's correlation; zeros for constant values or predictions, which have none."""
    if _is_constant(targets) or _is_constant(predicted):
        return np.zeros(len(targets))
    share = len(targets) / (len(targets) - 1)
    left, right = targets - targets.mean(), predicted - predicted.mean()
    products, first, second = left * right, np.square(left), np.square(right)
    score = products.sum() / np.sqrt(first.sum() * second.sum())
    variances = (first.sum() - share * first) * (second.sum() - share * second)
    # Without the only text that differs from the others there is no correlation.
    is_defined = variances > CONSTANT * first.sum() * second.sum()
    without = np.where(is_defined, (products.sum() - share * products) / np.sqrt(np.where(is_defined, variances, 1)), 0)
    return _pseudo_values(score, without)


def micro_f1_values(counts: np.ndarray) -> np.ndarray:
    """Pseudo-values of F1 over all labels or types. `counts` is texts x labels x (correct, predicted, true)."""
    by_text = np.einsum("tlc->tc", counts)  # as counts.sum(axis=1), several times faster
    total = by_text.sum(axis=0)
    return _pseudo_values(float(f1_of_counts(total)), f1_of_counts(total - by_text))


def macro_f1_of_counts(counts: np.ndarray) -> np.ndarray:
    """Pseudo-values of the mean F1 of the labels; a label that neither occurs nor is predicted has 0."""
    total = counts.sum(axis=0)
    return _pseudo_values(float(f1_of_counts(total).mean()), f1_of_counts(total - counts).mean(axis=1))


def _is_constant(values: np.ndarray) -> bool:
    return bool(np.ptp(values) <= CONSTANT * np.abs(values).max())


def _pseudo_values(score: float, without: np.ndarray) -> np.ndarray:
    """Values whose mean is the score, from the scores without each text."""
    values = score - (len(without) - 1) * (without - score)
    return values + (score - values.mean())


UNIT_SCORES: dict[str, dict[str, Callable[[Any], np.ndarray]]] = {
    "classes": {"accuracy": _accuracy, "macro_f1": _macro_f1},
    "values": {
        "r2": lambda predictions: r2_values(predictions.targets, predictions.values),
        "pearson": lambda predictions: pearson_values(predictions.targets, predictions.values),
    },
    "label sets": {
        "micro_f1": lambda predictions: micro_f1_values(predictions.counts),
        "macro_f1": lambda predictions: macro_f1_of_counts(predictions.counts),
    },
    "tags": {"f1": lambda predictions: micro_f1_values(predictions.counts)},
    "answers": {
        "f1": lambda predictions: predictions.f1,
        "exact_match": lambda predictions: predictions.exact_match,
    },
}
"""Per kind of predictions and metric with a validated test. A metric that is not listed has an estimate and no
verdict."""
BOUNDS = {"r2": (-math.inf, 1.0), "pearson": (-1.0, 1.0)}
"""The lowest and the highest possible score, if they are not 0 and 1."""


def bounds_of(metric: str) -> tuple[float, float]:
    """The lowest and the highest possible score."""
    return BOUNDS.get(metric, (0.0, 1.0))


def least_error(predictions: AnyPredictions, num_examples: int | None = None) -> float:
    """The least standard error of a score: what one example can change; 0 if the values per example are continuous."""
    if predictions.kind == "values":
        return 0.0
    return 1 / (len(predictions.text_ids) if num_examples is None else num_examples)


def unit_scores(predictions: AnyPredictions, metric: str, *, groups: np.ndarray | None = None) -> np.ndarray:
    """One value per test text, or per group of texts (`groups` has the group number of each text)."""
    values = UNIT_SCORES[predictions.kind][metric](predictions)
    return values if groups is None else grouped_values(values, groups)


def grouped_values(values: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """One value per group instead of one per text, with the same mean."""
    mean, num_groups = values.mean(), int(groups.max()) + 1
    sums = np.bincount(groups, weights=values - mean, minlength=num_groups)
    return mean + sums * (num_groups / len(values))
