"""One value per test text: its mean is the score, and its jackknife is that of leaving texts out."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

from headswap.finetuning.prediction_file import Predictions, text_ids
from headswap.metrics.classification import scores
from headswap.study.unit_scores import unit_scores


def random_predictions(num_labels: int, num_texts: int, seed: int = 0) -> Predictions:
    stream = np.random.default_rng(seed)
    targets = stream.integers(0, num_labels, num_texts)
    probabilities = stream.random((num_texts, num_labels)) * 0.5
    probabilities[np.arange(num_texts), targets] += 0.3
    labels = tuple(f"label {number}" for number in range(num_labels))
    return Predictions(probabilities, targets, labels, text_ids([str(number) for number in range(num_texts)]))


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1"])
@pytest.mark.parametrize(("num_labels", "num_texts"), [(2, 40), (7, 60), (30, 45)])
def test_the_mean_is_the_score(metric: str, num_labels: int, num_texts: int) -> None:
    predictions = random_predictions(num_labels, num_texts)
    expected = scores(predictions.probabilities, predictions.targets)[metric]
    assert unit_scores(predictions, metric).mean() == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("num_labels", [2, 5, 12])
def test_pseudo_values_of_macro_f1_leave_one_text_out(num_labels: int) -> None:
    predictions = random_predictions(num_labels, 30, seed=num_labels)
    targets, predicted = predictions.targets, predictions.probabilities.argmax(axis=1)

    def macro(kept: np.ndarray) -> float:
        return float(
            f1_score(targets[kept], predicted[kept], average="macro", labels=range(num_labels), zero_division=0)
        )

    everything = np.ones(30, dtype=bool)
    jackknife = []
    for left_out in range(30):
        kept = everything.copy()
        kept[left_out] = False
        jackknife.append(30 * macro(everything) - 29 * macro(kept))
    found = unit_scores(predictions, "macro_f1")
    assert found - found.mean() == pytest.approx(np.array(jackknife) - np.mean(jackknife), abs=1e-9)


@pytest.mark.parametrize("metric", ["accuracy", "macro_f1"])
def test_groups_keep_the_mean_and_sum_their_texts(metric: str) -> None:
    predictions = random_predictions(3, 60)
    groups = np.random.default_rng(1).integers(0, 10, 60)
    groups[:10] = np.arange(10)
    values, found = unit_scores(predictions, metric), unit_scores(predictions, metric, groups=groups)
    assert len(found) == 10
    assert found.mean() == pytest.approx(values.mean())
    expected = [(values[groups == group] - values.mean()).sum() * 10 / 60 for group in range(10)]
    assert found - found.mean() == pytest.approx(np.array(expected))
