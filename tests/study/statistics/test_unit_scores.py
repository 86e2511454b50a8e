"""One value per test text: its mean is the score, and its jackknife is that of leaving texts out."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from metric_draws import Pair, metrics_of, models, real_arms
from sklearn.metrics import f1_score
from verdicts import rejected_by_metric

from headswap.finetuning.answer_predictions import AnswerPredictions
from headswap.finetuning.label_set_predictions import LabelSetPredictions
from headswap.finetuning.prediction_file import Predictions, ValuePredictions, text_ids
from headswap.metrics.classification import scores
from headswap.metrics.regression import regression_metrics
from headswap.study.statistics.unit_scores import UNIT_SCORES, pearson_values, r2_values, unit_scores


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


CASES = [pytest.param(kind, name, draw, id=f"{kind}: {name}") for kind, name, draw in models()]


@pytest.mark.parametrize(("kind", "name", "draw"), CASES)
def test_the_error_rate_of_every_metric_is_at_most_5_percent(kind: str, name: str, draw: Pair) -> None:
    draws, num_seeds = 400, 5 if "seeds differ" in name else 3
    for metric, (_, found) in rejected_by_metric(draw, metrics_of(kind), num_seeds, 300, 0.0, draws).items():
        assert found <= 0.05 + 2.5 * np.sqrt(0.05 * 0.95 / draws), metric
        assert found >= 0.005 or name.startswith("noisy"), f"nor is the test of {metric} much too conservative"


def test_every_metric_with_a_verdict_is_simulated() -> None:
    simulated = {(kind, metric) for kind, _, _ in models() for metric in metrics_of(kind)}
    with_verdict = {(kind, metric) for kind, metrics in UNIT_SCORES.items() for metric in metrics}
    assert with_verdict - simulated == {("classes", "accuracy")}, (
        "tests/study/statistics/test_significance.py has accuracy"
    )


@pytest.mark.parametrize(("kind", "name", "draw"), CASES[:6])
def test_a_simulated_gain_has_its_size_and_is_found(kind: str, name: str, draw: Pair) -> None:
    first, _ = draw(np.random.default_rng(1), 5, 2_000)
    for metric in metrics_of(kind):
        better = first.improved(np.random.default_rng(2), metric, 0.1)
        assert better.values(metric).mean() - first.values(metric).mean() == pytest.approx(0.1, abs=0.02), name
    few, many = (rejected_by_metric(draw, metrics_of(kind), 3, 300, gain, 60) for gain in (0.0, 0.15))
    assert all(many[metric][1] > few[metric][1] + 0.2 for metric in many)


def test_run_folders_are_resampled_by_seed_and_by_group(tmp_path: Path) -> None:
    contexts = np.repeat(np.arange(30), 4)
    for seed in range(8):
        f1 = np.random.default_rng(seed).choice([0.0, 0.5, 1.0], len(contexts)) * (contexts != 0)
        ids, offsets = text_ids([f"question {number}" for number in range(len(f1))]), np.zeros(len(f1), np.int32)
        groups = text_ids([f"context {number}" for number in contexts.tolist()])
        exact = (f1 == 1).astype(float)
        kept = AnswerPredictions(offsets, offsets, f1, exact, np.ones(len(f1), bool), ids, ids, groups)
        (tmp_path / "answers" / str(seed)).mkdir(parents=True)
        kept.save(tmp_path / "answers" / str(seed))
    (kind, name, same), (_, other_name, unrelated) = real_arms(tmp_path)
    assert (kind, name, other_name) == ("answers", "answers", "answers, unrelated errors")
    first, second = same(np.random.default_rng(0), 3, 100)
    assert first.values("f1").shape == second.values("f1").shape == (3, 25), "25 contexts of 4 questions"
    assert not any((one == other).all() for one in first.answers for other in second.answers), "no seed is in both"
    first, second = unrelated(np.random.default_rng(0), 3, 100)
    assert first.values("f1").shape == second.values("f1").shape
    is_zero = [arm.answers.any(axis=0).reshape(-1, 4).any(axis=1) for arm in (first, second)]
    assert (is_zero[0] != is_zero[1]).any(), "the two arms have different contexts"
