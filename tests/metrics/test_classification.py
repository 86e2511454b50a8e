"""Metrics of classification, compared with known values and with scikit-learn."""

import logging

import numpy as np
import pytest
import torch
from sklearn import metrics

from headswap.baselines.classify import majority_baseline
from headswap.data.records import Example
from headswap.metrics.classification import (
    calibration,
    classification_metrics,
    confusion_matrix,
    f1_scores,
    scores,
    warn_of_collapse,
)


def some(seed: int = 0, *, num: int = 200, labels: int = 3) -> tuple[np.ndarray, np.ndarray]:
    stream = np.random.default_rng(seed)
    return stream.dirichlet(np.ones(labels), num), stream.integers(0, labels, num)


def test_confusion_and_f1_equal_scikit_learns() -> None:
    probabilities, targets = some()
    predicted = probabilities.argmax(axis=1)
    counts = confusion_matrix(predicted, targets, 3)
    assert (counts == metrics.confusion_matrix(targets, predicted)).all()
    assert f1_scores(predicted, targets, 3) == pytest.approx(metrics.f1_score(targets, predicted, average=None))
    found = scores(probabilities, targets)
    assert found["accuracy"] == metrics.accuracy_score(targets, predicted)
    assert found["macro_f1"] == pytest.approx(metrics.f1_score(targets, predicted, average="macro"))
    assert found["loss"] == pytest.approx(metrics.log_loss(targets, probabilities))


def test_macro_f1_has_one_definition_also_where_labels_do_not_occur() -> None:
    """The mean over all labels of train: the same number from probabilities, from logits, and of a baseline."""
    labels = ["a", "b", "c", "d"]
    truth, guess = ["a", "a", "b", "b", "a"], ["a", "b", "b", "c", "a"]  # d occurs nowhere, c is only predicted
    expected = metrics.f1_score(truth, guess, average="macro", labels=labels, zero_division=0)
    probabilities = np.eye(4)[[labels.index(name) for name in guess]]
    targets = np.array([labels.index(name) for name in truth])
    assert scores(probabilities, targets)["macro_f1"] == pytest.approx(expected)
    logits = torch.from_numpy(probabilities)
    assert classification_metrics([logits], targets, labels)["macro_f1"] == pytest.approx(expected)
    train = [Example("x", label, "tests", 1) for label in ("a", "a", "b", "c", "d")]
    test = [Example("x", label, "tests", 1) for label in truth]
    constant = metrics.f1_score(truth, ["a"] * 5, average="macro", labels=labels, zero_division=0)
    assert majority_baseline(train, test)["macro_f1"] == pytest.approx(constant)


def test_a_label_that_never_occurs_and_is_never_predicted_has_no_f1() -> None:
    found = f1_scores(np.array([0, 0, 0, 1, 1, 1, 1, 1]), np.array([0, 0, 0, 0, 1, 1, 1, 1]), 3)
    assert np.isnan(found[2])
    assert found[0] == pytest.approx(6 / 7)


def test_calibration_of_a_known_case() -> None:
    # Ten texts with .95, of which eight are right; ten with .65, of which five are right.
    probabilities = np.array([[0.95, 0.05]] * 10 + [[0.65, 0.35]] * 10)
    targets = np.array([0] * 8 + [1] * 2 + [0] * 5 + [1] * 5)
    found = calibration(probabilities, targets)
    assert found["ece"] == pytest.approx(0.5 * 0.15 + 0.5 * 0.15)
    assert [(b["confidence"], b["accuracy"], b["share"]) for b in found["bins"]] == [
        (pytest.approx(0.65), 0.5, 0.5), (pytest.approx(0.95), 0.8, 0.5),
    ]  # fmt: skip


def test_calibration_has_fifteen_bins_of_equal_numbers_and_never_separates_equal_confidences() -> None:
    confidence = np.linspace(0.5, 1, 150)
    probabilities = np.stack([confidence, 1 - confidence], axis=1)
    targets = np.random.default_rng(0).integers(0, 2, 150)
    found = calibration(probabilities, targets)
    assert [one["share"] for one in found["bins"]] == [pytest.approx(1 / 15)] * 15
    by_hand = [
        abs(confidence[at : at + 10].mean() - (targets[at : at + 10] == 0).mean()) / 15 for at in range(0, 150, 10)
    ]  # fmt: skip
    assert found["ece"] == pytest.approx(sum(by_hand))
    constant = calibration(np.array([[0.6, 0.4]] * 100), np.array([0, 1] * 50))
    assert len(constant["bins"]) == 1
    assert constant["ece"] == pytest.approx(0.1)


def test_certain_and_right_predictions_have_no_calibration_error() -> None:
    assert calibration(np.array([[1.0, 0.0]] * 4), np.zeros(4, dtype=int))["ece"] == 0.0


def test_a_model_that_predicts_one_class_for_all_texts_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    logits = torch.tensor([[2.0, 1.0]] * 4)
    metrics = classification_metrics([logits], np.array([0, 1, 1, 0]), ("neg", "pos"))
    assert (metrics["accuracy"], metrics["macro_f1"]) == (0.5, pytest.approx(1 / 3))
    with caplog.at_level(logging.WARNING):
        warn_of_collapse(metrics, role="validation")
    assert "predicts 'neg' for all 4 texts of validation" in caplog.text
    caplog.clear()
    fine = classification_metrics([torch.tensor([[2.0, 1.0], [1.0, 2.0]])], np.array([0, 1]), ("neg", "pos"))
    warn_of_collapse(fine, role="validation")
    assert not caplog.text


def test_metrics_do_not_depend_on_the_chunks() -> None:
    stream = np.random.default_rng(1)
    logits, targets = torch.from_numpy(stream.normal(size=(90, 4)).astype(np.float32)), stream.integers(0, 4, 90)
    whole = classification_metrics([logits], targets, "abcd")
    parts = classification_metrics(logits.split(7), targets, "abcd")
    assert parts.pop("loss") == pytest.approx(whole.pop("loss"), rel=1e-12)
    assert parts == whole
    assert np.array(whole["confusion"]).sum() == 90


def test_many_classes_have_the_most_frequent_confusions_instead_of_a_matrix() -> None:
    labels = [f"label {number}" for number in range(400)]
    targets = np.repeat(np.arange(100), 2)
    predicted = np.where(targets == 7, 8, targets)
    predicted[:2] = 300, 301
    logits = torch.from_numpy(np.eye(400, dtype=np.float32)[predicted])
    found = classification_metrics([logits], targets, labels)
    assert found["confusion"] is None
    assert found["largest_confusions"] == [
        {"truth": "label 7", "predicted": "label 8", "count": 2},
        {"truth": "label 0", "predicted": "label 300", "count": 1},
        {"truth": "label 0", "predicted": "label 301", "count": 1},
    ]
    assert found["accuracy"] == 0.98
