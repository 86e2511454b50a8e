"""Baselines of classification, on a grammar whose words determine the label."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score, log_loss
from sklearn.model_selection import StratifiedKFold, cross_val_predict, cross_val_score

from headswap.baselines.classify import majority_baseline, tfidf_baseline
from headswap.baselines.linear import STRENGTHS, make_folds
from headswap.baselines.tfidf import tfidf_features
from headswap.data.records import Example
from tiny import sentences


def examples(count: int, seed: int) -> list[Example]:
    return [Example(text, label, "tests", line) for line, (text, label) in enumerate(sentences(count, seed=seed), 1)]


def test_tfidf_learns_the_grammar() -> None:
    found = tfidf_baseline(examples(80, 1), examples(60, 2))
    assert found["accuracy"] > 0.95
    assert found["macro_f1"] > 0.95
    assert found["num_examples"] == 60
    assert found["C"] in STRENGTHS


def test_tfidf_reads_both_texts_of_a_pair() -> None:
    train = [Example("a film", one.label, "tests", one.line, one.text) for one in examples(40, 1)]
    assert tfidf_baseline(train, train)["accuracy"] == 1


def test_the_majority_is_counted_in_train_and_scored_on_test() -> None:
    train = [Example("x", label, "tests", 1) for label in ("b", "b", "b", "a")]
    test = [Example("x", label, "tests", 1) for label in ("a", "b", "a", "a")]
    found = majority_baseline(train, test)
    assert (found["label"], found["accuracy"]) == ("b", 0.25)
    assert found["macro_f1"] == pytest.approx((0 + 2 * 0.25 / 1.25) / 2)


def test_on_a_tie_the_first_label_is_the_majority() -> None:
    train = [Example("x", label, "tests", 1) for label in ("b", "a")]
    assert majority_baseline(train, train)["label"] == "a"


def test_the_majority_is_cross_validated_on_the_folds_of_the_other_baselines() -> None:
    """Held-out texts have the label that the others have less often, so counting them would hide the errors."""
    train = [Example("x", label, "tests", 1) for label in ("a", "b", "a", "b")]
    assert majority_baseline(train, train)["cross_validation"] == 0.5
    labels = ["a"] * 6 + ["b"] * 5 + ["c"] * 5
    train = [Example("x", label, "tests", line) for line, label in enumerate(labels)]
    folds = make_folds(labels, None)
    found = [np.mean([labels[row] == _most([labels[one] for one in rest]) for row in held]) for rest, held in folds]
    assert majority_baseline(train, train)["cross_validation"] == pytest.approx(np.mean(found))
    alone = [Example("x", label, "tests", 1) for label in "abc"]
    assert majority_baseline(alone, alone)["cross_validation"] is None, "no class has two examples: as of tfidf"


def _most(labels: list[str]) -> str:
    return min(labels, key=lambda label: (-labels.count(label), label))


def test_one_example_per_class_is_enough() -> None:
    train = [Example("a fine film", "pos", "tests", 1), Example("a dull film", "neg", "tests", 2)]
    assert tfidf_baseline(train, train)["accuracy"] == 1


def test_the_strength_is_chosen_by_the_metric() -> None:
    """Of each C the metric of the held-out predictions is computed by hand; of equal ones the log loss decides."""
    stream = np.random.default_rng(16)
    words = [f"word{number}" for number in range(30)]
    labels = ["rare"] * 12 + ["often"] * 108
    train = [
        Example(" ".join([*stream.choice(words, 6), *(["odd"] if label == "rare" and at % 2 else [])]), label, "x", at)
        for at, label in enumerate(labels)
    ]  # fmt: skip
    features, _ = tfidf_features([one.text for one in train], ["x"])
    found: dict[str, dict[float, float]] = {"accuracy": {}, "macro_f1": {}, "loss": {}}
    folds = StratifiedKFold(5, shuffle=True, random_state=0)
    for C in STRENGTHS:
        model = LogisticRegression(C=C, solver="newton-cg", tol=1e-7, max_iter=1000)
        found["accuracy"][C] = cross_val_score(model, features, labels, cv=folds).mean()
        shares = cross_val_predict(model, features, labels, cv=folds, method="predict_proba")
        guess = [["often", "rare"][number] for number in shares.argmax(axis=1)]
        found["macro_f1"][C] = f1_score(labels, guess, average="macro", zero_division=0)
        found["loss"][C] = -log_loss(labels, shares)
    loss = found["loss"]
    best = {metric: max(STRENGTHS, key=lambda C, of=values: (of[C], loss[C])) for metric, values in found.items()}
    assert len(set(best.values())) > 1, "the metrics disagree"
    for metric, C in best.items():
        assert tfidf_baseline(train, train, metric=metric)["C"] == C
    assert tfidf_baseline(train, train)["C"] == best["accuracy"]
