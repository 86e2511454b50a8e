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
    f1 = _f1(right, counted)
    without_right = _f1(right - 1, counted - 2) - f1  # change of F1 without a text that is predicted correctly
    without_wrong = _f1(right, counted - 1) - f1  # without its true label, or without its predicted label
    changes = np.where(is_right, without_right[targets], without_wrong[targets] + without_wrong[predicted])
    values = f1.mean() - (size - 1) * changes / num_labels
    return values + (f1.mean() - values.mean())


def _f1(right: np.ndarray, counted: np.ndarray) -> np.ndarray:
    """F1 per label; 0 for a label that neither occurs nor is predicted."""
    return 2 * right.clip(0) / np.maximum(counted, 1)


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
