"""The baselines that are arms of a study: their outputs fit the predictions of the task, and they state a score."""

from typing import Any

import pytest

from headswap.baselines.arm_baseline import CROSS_VALIDATION
from headswap.registry import ARM_BASELINES, BASELINES, PREDICTIONS
from headswap.tasks.choose import named_task
from task_data import LABELS, examples_of

ARMS = [(task, name) for task in ("multilabel", "tag", "span") for name in ARM_BASELINES[task]]


@pytest.mark.parametrize(("task", "name"), ARMS)
def test_an_arm_scores_as_the_baseline_of_finetune(task: str, name: str) -> None:
    train, test = examples_of(task, 60, seed=1), examples_of(task, 30, seed=2)
    metric = named_task(task).study_metrics[0]
    baseline: Any = ARM_BASELINES[task].load(name)
    outputs, chosen = baseline.fit(train, test, LABELS[task], metric)
    predictions = PREDICTIONS.load(named_task(task).prediction_kind or "").of(outputs, test, LABELS[task])
    expected = BASELINES[task].load(name)(train, test)
    assert predictions.scores()[metric] == pytest.approx(expected[metric])
    assert 0 <= chosen[CROSS_VALIDATION] <= 1


def test_only_constant_predictions_are_marked_as_constant() -> None:
    constant = {(task, name) for task, known in ARM_BASELINES.items() for name in known if known.load(name).is_constant}
    assert constant == {("classify", "majority"), ("multilabel", "majority"), ("regress", "mean")}


def test_the_score_of_held_out_texts_is_not_that_of_the_fitted_ones() -> None:
    train = examples_of("tag", 40, seed=1)
    baseline: Any = ARM_BASELINES["tag"].load("majority")
    _, chosen = baseline.fit(train, train, LABELS["tag"], "f1")
    outputs, _ = baseline.fit(train, train, LABELS["tag"], "f1")
    fitted = PREDICTIONS.load("tags").of(outputs, train, LABELS["tag"]).scores()["f1"]
    assert chosen[CROSS_VALIDATION] < fitted
