"""The score of one run as one value per test text, whose mean is the score.

Accuracy is a mean over texts. Macro-F1 is not: its values are jackknife pseudo-values, `n * score - (n - 1) * score
without the text`, shifted so that their mean is the score. If texts belong to groups, such as the texts of one author,
there is one value per group, because texts of one group are not independent.
"""

from collections.abc import Callable

import numpy as np

from headswap.finetuning.prediction_file import Predictions


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
    f1, occurs = _f1(right, counted)
    lost_right, lost_right_occurs = _f1(right - 1, counted - 2)  # without a text that is predicted correctly
    lost, lost_occurs = _f1(right, counted - 1)  # without its true label, or without its predicted label
    total, number = f1.sum(), occurs.sum()
    totals = np.where(
        is_right,
        total + (lost_right - f1)[targets],
        total + (lost - f1)[targets] + (lost - f1)[predicted],
    )
    numbers = np.where(
        is_right,
        number + (lost_right_occurs - occurs)[targets],
        number + (lost_occurs - occurs)[targets] + (lost_occurs - occurs)[predicted],
    )
    score = total / number
    values = size * score - (size - 1) * totals / np.maximum(numbers, 1)
    return values + (score - values.mean())


def _f1(right: np.ndarray, counted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """F1 per label, and 1 for each label that occurs or is predicted; the others do not count."""
    return 2 * right.clip(0) / np.maximum(counted, 1), (counted > 0).astype(int)


UNIT_SCORES: dict[str, Callable[[Predictions], np.ndarray]] = {"accuracy": _accuracy, "macro_f1": _macro_f1}
"""Per metric with a validated test. A metric that is not listed has an estimate and no verdict."""


def unit_scores(predictions: Predictions, metric: str, *, groups: np.ndarray | None = None) -> np.ndarray:
    """One value per test text, or per group of texts (`groups` has the group number of each text)."""
    values = UNIT_SCORES[metric](predictions)
    if groups is None:
        return values
    mean, num_groups = values.mean(), int(groups.max()) + 1
    sums = np.bincount(groups, weights=values - mean, minlength=num_groups)
    return mean + sums * (num_groups / len(values))
