"""One value per test text: its mean is the score, and its jackknife is that of leaving texts out."""

from collections.abc import Callable

import numpy as np
import pytest
from sklearn.metrics import f1_score

from headswap.finetuning.label_set_predictions import LabelSetPredictions
from headswap.finetuning.prediction_file import Predictions, ValuePredictions, text_ids
from headswap.metrics.classification import scores
from headswap.metrics.regression import regression_metrics
from headswap.study.statistics import crossed_mean
from headswap.study.unit_scores import (
    UNIT_SCORES,
    macro_f1_of_counts,
    micro_f1_values,
    pearson_values,
    r2_values,
    unit_scores,
)


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


def random_values(num_texts: int, *, quality: float = 1.0) -> ValuePredictions:
    stream = np.random.default_rng(num_texts)
    targets = stream.choice([1.0, 2.0, 3.0, 8.0, 9.0, 10.0], num_texts)
    values = 5 + quality * 0.3 * targets + stream.standard_normal(num_texts)
    return ValuePredictions(values, targets, text_ids([str(number) for number in range(num_texts)]))


@pytest.mark.parametrize("metric", ["r2", "pearson"])
def test_pseudo_values_of_a_regression_leave_one_text_out(metric: str) -> None:
    predictions = random_values(40)
    targets, values = predictions.targets, predictions.values
    score = regression_metrics(targets, values)[metric]
    without = [regression_metrics(np.delete(targets, row), np.delete(values, row))[metric] for row in range(40)]
    jackknife = 40 * score - 39 * np.array(without)
    found = unit_scores(predictions, metric)
    assert found.mean() == pytest.approx(score)
    assert found - found.mean() == pytest.approx(jackknife - jackknife.mean())


def test_a_constant_prediction_has_the_correlation_zero_and_so_has_one_text_that_differs() -> None:
    targets = np.arange(10.0)
    assert pearson_values(targets, np.full(10, 5.5)).tolist() == [0.0] * 10
    alone = np.r_[np.zeros(9), 1.0]
    assert np.isfinite(pearson_values(targets, alone)).all()
    assert pearson_values(targets, alone).mean() == pytest.approx(np.corrcoef(targets, alone)[0, 1])


@pytest.mark.parametrize("values", [r2_values, pearson_values])
def test_true_values_that_are_equal_or_one_text_alone_have_the_score_zero(values: Callable) -> None:
    assert values(np.full(5, 3.0), np.arange(5.0)).tolist() == [0.0] * 5
    assert values(np.array([3.0]), np.array([2.0])).tolist() == [0.0]
    assert np.isfinite(values(np.r_[np.zeros(5), 1.0], np.arange(6.0))).all()


def false_positives(metric: str, *, num_seeds: int, stable: float, of_seeds: float, ratings: bool, draws: int) -> float:
    """The share of p < .05 between two arms with the same true score; `stable` is the share of errors of all seeds."""
    stream, num_texts, rejected = np.random.default_rng(0), 150, 0
    for _ in range(draws):
        drawn = stream.choice([1, 2, 3, 4, 7, 8, 9, 10], num_texts) if ratings else stream.lognormal(0, 1, num_texts)
        targets = (drawn - drawn.mean()) / drawn.std()
        arms = []
        for _ in range(2):
            shared = np.sqrt(stable) * stream.standard_normal(num_texts)
            noise = np.sqrt(1 - stable) * stream.standard_normal((num_seeds, num_texts))
            slopes = 1 + of_seeds * stream.standard_normal((num_seeds, 1))
            rows = 0.5 * (slopes * targets + shared + noise)
            arms.append(np.stack([{"r2": r2_values, "pearson": pearson_values}[metric](targets, row) for row in rows]))
        rejected += (crossed_mean(arms[0] - arms[1]).p_value() or 1.0) < 0.05
    return rejected / draws


@pytest.mark.parametrize("metric", ["r2", "pearson"])
@pytest.mark.parametrize("ratings", [True, False], ids=["ratings", "skewed"])
@pytest.mark.parametrize(
    ("num_seeds", "stable", "of_seeds"), [(3, 0.9, 0.0), (3, 0.2, 0.1), (5, 0.9, 0.1)], ids=["stable", "noisy", "seeds"]
)
def test_the_error_rate_of_a_regression_is_at_most_5_percent(
    metric: str, ratings: bool, num_seeds: int, stable: float, of_seeds: float
) -> None:
    found = false_positives(
        metric, num_seeds=num_seeds, stable=stable, of_seeds=of_seeds, ratings=ratings, draws=600
    )  # fmt: skip
    assert 0.01 <= found <= 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / 600)


def test_every_metric_of_a_study_has_values_per_text() -> None:
    from headswap.registry import TASKS

    named: dict[str, set[str]] = {}
    for task in map(TASKS.load, TASKS):
        if task.study_metrics:
            named.setdefault(task.prediction_kind, set()).update(task.study_metrics)
    assert named == {kind: set(metrics) for kind, metrics in UNIT_SCORES.items()}


def random_label_sets(num_labels: int, num_texts: int) -> LabelSetPredictions:
    stream = np.random.default_rng(num_texts)
    targets = stream.random((num_texts, num_labels)) < np.linspace(0.1, 0.5, num_labels)
    predicted = np.where(stream.random(targets.shape) < 0.8, targets, stream.random(targets.shape) < 0.3)
    ids = text_ids([str(number) for number in range(num_texts)])
    return LabelSetPredictions(predicted, targets, tuple(map(str, range(num_labels))), ids)


@pytest.mark.parametrize("metric", ["micro_f1", "macro_f1"])
@pytest.mark.parametrize("num_labels", [1, 4, 28])
def test_pseudo_values_of_label_sets_leave_one_text_out(metric: str, num_labels: int) -> None:
    predictions = random_label_sets(num_labels, 40)
    score = predictions.scores()[metric]
    without = [predictions.take(np.arange(40) != row).scores()[metric] for row in range(40)]
    jackknife = 40 * score - 39 * np.array(without)
    found = unit_scores(predictions, metric)
    assert found.mean() == pytest.approx(score)
    assert found - found.mean() == pytest.approx(jackknife - jackknife.mean())


def f1_false_positives(
    values: Callable[[np.ndarray], np.ndarray], *, num_seeds: int, stable: float, of_seeds: float, draws: int
) -> float:
    """The share of p < .05 between two arms with the same true F1: labels of skewed frequency, several per text.

    `stable` is the share of the noise of a text and label that all seeds have; `of_seeds` shifts all scores of a seed.
    """
    stream, num_texts, rejected = np.random.default_rng(0), 150, 0
    shares = np.geomspace(0.4, 0.04, 6)
    for _ in range(draws):
        truth = stream.random((num_texts, 6)) < shares
        arms = []
        for _ in range(2):
            shared = np.sqrt(stable) * stream.standard_normal(truth.shape)
            noise = np.sqrt(1 - stable) * stream.standard_normal((num_seeds, *truth.shape))
            shift = of_seeds * stream.standard_normal((num_seeds, 1, 1))
            predicted = 2 * truth - 1.2 + shared + noise + shift > 0
            counts = np.stack([truth & predicted, predicted, np.broadcast_to(truth, predicted.shape)], axis=3)
            arms.append(np.stack([values(row) for row in counts.astype(np.int64)]))
        rejected += (crossed_mean(arms[0] - arms[1]).p_value() or 1.0) < 0.05
    return rejected / draws


@pytest.mark.parametrize("values", [micro_f1_values, macro_f1_of_counts], ids=["micro", "macro"])
@pytest.mark.parametrize(
    ("num_seeds", "stable", "of_seeds"), [(3, 0.9, 0.0), (3, 0.2, 0.1), (5, 0.9, 0.1)], ids=["stable", "noisy", "seeds"]
)
def test_the_error_rate_of_f1_over_labels_is_at_most_5_percent(
    values: Callable[[np.ndarray], np.ndarray], num_seeds: int, stable: float, of_seeds: float
) -> None:
    found = f1_false_positives(values, num_seeds=num_seeds, stable=stable, of_seeds=of_seeds, draws=500)
    assert 0.005 <= found <= 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / 500)
