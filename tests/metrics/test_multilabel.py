"""Metrics and thresholds of multi-label classification."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

from headswap.metrics.multilabel import best_thresholds, multilabel_metrics


def test_thresholds_maximise_f1_and_are_one_half_for_a_label_that_never_occurs() -> None:
    scores = np.array([[0.9, 0.2, 0.4], [0.6, 0.3, 0.4], [0.3, 0.1, 0.4], [0.1, 0.05, 0.1]])
    truth = np.array([[1, 1, 0], [1, 1, 0], [1, 0, 0], [0, 0, 0]], dtype=bool)
    found = best_thresholds(scores, truth)
    assert found.tolist() == pytest.approx([0.2, 0.15, 0.5])
    assert ((scores >= found)[:, :2] == truth[:, :2]).all()
    separable = best_thresholds(np.array([[0.9], [0.2]]), np.array([[True], [False]]))
    assert separable.tolist() == [0.5], "0.5 where it is as good as any"


def test_chosen_thresholds_are_at_least_as_good_as_one_half() -> None:
    stream = np.random.default_rng(0)
    scores, labels = stream.random((80, 5)), ["a", "b", "c", "d", "e"]
    truth = stream.random((80, 5)) < scores * 0.4
    tuned = multilabel_metrics(truth, scores >= best_thresholds(scores, truth), labels)
    plain = multilabel_metrics(truth, scores >= 0.5, labels)
    assert all(tuned["f1"][name] >= plain["f1"][name] for name in labels)


def test_multilabel_metrics_of_a_known_case() -> None:
    truth = np.array([[1, 0, 0], [1, 1, 0], [0, 0, 0]], dtype=bool)
    guess = np.array([[1, 1, 0], [1, 0, 0], [0, 0, 0]], dtype=bool)
    found = multilabel_metrics(truth, guess, ["a", "b", "c"], is_final=True)
    assert found["micro_f1"] == pytest.approx(f1_score(truth, guess, average="micro")) == pytest.approx(2 / 3)
    assert found["f1"] == {"a": 1.0, "b": 0.0}, "c neither occurs nor is predicted"
    assert found["macro_f1"] == pytest.approx(f1_score(truth, guess, average="macro", zero_division=0))
    assert found["macro_f1"] == pytest.approx(1 / 3), "c counts as 0, as in classification"
    assert found["exact_match"] == pytest.approx(1 / 3)
    assert found["interval"]["low"] <= 2 / 3 <= found["interval"]["high"]
