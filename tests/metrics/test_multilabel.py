"""Metrics and thresholds of multi-label classification."""

import numpy as np
import pytest
from sklearn.metrics import f1_score

from headswap.metrics.multilabel import best_thresholds, multilabel_metrics


def test_thresholds_maximise_f1_and_are_one_half_for_a_label_that_never_occurs() -> None:
    scores = np.array([[0.9, 0.2, 0.4], [0.6, 0.3, 0.4], [0.3, 0.1, 0.4], [0.1, 0.05, 0.1]])
    truth = np.array([[1, 1, 0], [1, 1, 0], [1, 0, 0], [0, 0, 0]], dtype=bool)
    found = best_thresholds(scores, truth, "macro_f1")
    assert found.tolist() == pytest.approx([0.2, 0.15, 0.5])
    assert ((scores >= found)[:, :2] == truth[:, :2]).all()
    separable = best_thresholds(np.array([[0.9], [0.2]]), np.array([[True], [False]]), "macro_f1")
    assert separable.tolist() == [0.5], "0.5 where it is as good as any"


def test_chosen_thresholds_are_at_least_as_good_as_one_half() -> None:
    stream = np.random.default_rng(0)
    scores, labels = stream.random((80, 5)), ["a", "b", "c", "d", "e"]
    truth = stream.random((80, 5)) < scores * 0.4
    tuned = multilabel_metrics(truth, scores >= best_thresholds(scores, truth, "macro_f1"), labels)
    plain = multilabel_metrics(truth, scores >= 0.5, labels)
    assert all(tuned["f1"][name] >= plain["f1"][name] for name in labels)


def test_one_threshold_for_all_labels_has_the_best_micro_f1_of_all_such_thresholds() -> None:
    stream = np.random.default_rng(1)
    scores = stream.random((60, 4))
    truth = stream.random((60, 4)) < scores**3
    found = best_thresholds(scores, truth, "micro_f1")
    assert len(set(found)) == 1
    best = max(f1_score(truth, scores >= cut, average="micro") for cut in scores.ravel())
    assert f1_score(truth, scores >= found, average="micro") == pytest.approx(best)
    assert (found == best_thresholds(scores, truth, "loss")).all()


def test_a_rare_label_that_the_scores_do_not_find_is_not_given_to_most_texts() -> None:
    """The F1 of such a label is best if every text gets it; that would cost micro-F1."""
    stream = np.random.default_rng(2)
    truth = np.stack([np.arange(100) % 2 == 0, np.arange(100) % 50 == 7], axis=1)
    scores = np.stack([np.where(truth[:, 0], 0.7, 0.3), stream.random(100) * 0.2], axis=1)
    shares = {
        metric: (scores >= best_thresholds(scores, truth, metric)).mean(axis=0) for metric in ("micro_f1", "macro_f1")
    }
    assert shares["micro_f1"].tolist() == [0.5, 0.0]
    assert shares["macro_f1"][1] > 0.1


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
