"""Baselines of multi-label classification."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import cross_val_predict

from headswap.baselines.arm_baseline import CROSS_VALIDATION
from headswap.baselines.multilabel import STRENGTHS, frequent_labels, linear_labels, most_frequent_labels, tfidf_labels
from headswap.baselines.tfidf import SOLVER, TOLERANCE, folds_without_strata, tfidf_features
from headswap.data.records import Example
from headswap.metrics.multilabel import best_thresholds, present_labels


def labelled(*labels: str, text: str = "x") -> Example:
    return Example(text, ", ".join(labels), "tests", 1, None, labels)


def test_the_labels_of_most_texts_are_predicted_for_all() -> None:
    train = [labelled("a", "b"), labelled("a"), labelled("c")]
    found = most_frequent_labels(train, [labelled("a"), labelled("b", "c")])
    assert found["micro_f1"] == pytest.approx(2 * 1 / (2 + 3)), "only a is a label of half of them"
    rare = [labelled("a"), labelled("a"), labelled("b"), labelled(), labelled(), labelled()]
    assert most_frequent_labels(rare, [labelled("a")])["micro_f1"] == 1, "no label of half of them: the most frequent"


def test_a_label_of_few_texts_or_of_all_is_no_error() -> None:
    train = [labelled("a", "b", text="fine"), labelled("a", text="dull"), labelled("a", text="grey")]
    found = tfidf_labels(train, train)
    assert found["num_examples"] == 3
    assert found["f1"]["a"] == 1


def test_held_out_texts_of_a_rare_label_are_predicted_by_the_model_of_the_other_folds() -> None:
    """Seven texts have the label, so that nothing is chosen; their words determine it."""
    train = [labelled("rare", text=f"odd strange curious {word}") for word in "abcdefg"]
    train += [labelled("often", text=f"plain usual common {word}") for word in "abcdefghijklmnopqrst"]
    _, chosen = linear_labels(train, train, ["often", "rare"], "macro_f1")
    assert chosen[CROSS_VALIDATION] == 1


def test_a_label_that_the_other_folds_do_not_have_is_not_predicted() -> None:
    train = [labelled("often", *(["rare"] if number == 3 else []), text=f"word{number}") for number in range(20)]
    _, chosen = linear_labels(train, train, ["often", "rare"], "macro_f1")
    assert chosen[CROSS_VALIDATION] == 0.5, "F1 is 1 of the label that all texts have, 0 of the other"


def test_the_most_frequent_labels_are_scored_on_texts_that_were_not_counted() -> None:
    train = [labelled("a"), labelled("b"), labelled("c"), labelled("d"), labelled("e")]
    predicted, chosen = frequent_labels(train, train, list("abcde"), "micro_f1")
    assert predicted.all(), "five labels of one text each"
    assert chosen[CROSS_VALIDATION] == 0, "the label of a held-out text is not among those of the others"


def test_the_chosen_strength_and_threshold_are_results_per_label_only_with_macro_f1() -> None:
    words = {"a": "fine", "b": "dull", "ab": "both", "": "none"}
    train = [labelled(*kind, text=f"{word} {number}") for number in range(20) for kind, word in words.items()]
    _, shared = linear_labels(train, train, ["a", "all", "b"], "micro_f1")
    assert shared["C"] in STRENGTHS
    assert 0 < shared["threshold"] < 1
    _, own = linear_labels(train, train, ["a", "all", "b"], "macro_f1")
    assert own["C"].keys() == own["threshold"].keys() == {"a", "b"}, "no text has the third label"
    assert set(own["C"].values()) <= set(STRENGTHS)
    _, none = linear_labels([labelled("all")] * 4, train[:4], ["all"], "micro_f1")
    assert none.keys() == {CROSS_VALIDATION}


def test_macro_f1_is_the_mean_over_the_labels_of_the_model() -> None:
    """With --num-train the model has labels that the sample and the test set lack; F1 of such a label is 0."""
    train = [labelled("a", text="fine"), labelled("b", text="dull")] * 6
    for baseline in (tfidf_labels, most_frequent_labels):
        few, many = baseline(train, train), baseline(train, train, labels=("a", "b", "c", "d"))
        assert many["macro_f1"] == pytest.approx(few["macro_f1"] / 2)
        assert many["micro_f1"] == few["micro_f1"]


def test_strength_and_threshold_of_a_fold_are_chosen_on_the_other_folds() -> None:
    """The same by hand; one word makes the label more probable. Chosen on all texts, the F1 would be higher."""
    stream = np.random.default_rng(3)
    rows = [(stream.random() < 0.3, stream.choice(list("pqrstuvw"), 4)) for _ in range(80)]
    train = [
        labelled(*(["a"] if wanted else []), text=" ".join([*words, "odd" if wanted and at % 2 else "even"]))
        for at, (wanted, words) in enumerate(rows)
    ]
    _, chosen = linear_labels(train, train, ["a"], "micro_f1")
    features, _ = tfidf_features([one.text for one in train], ["x"])
    wanted, folds = np.array([bool(one.labels) for one in train]), folds_without_strata(80, None)
    scores = {}
    for strength in STRENGTHS:
        model = LogisticRegression(C=strength, solver=SOLVER, tol=TOLERANCE, max_iter=1_000)
        scores[strength] = cross_val_predict(model, features, wanted, cv=folds, method="predict_proba")[:, 1]

    def best(rows: np.ndarray) -> tuple[float, float, float]:
        cuts = {
            one: best_thresholds(found[rows, None], wanted[rows, None], "micro_f1")[0] for one, found in scores.items()
        }
        return max((f1_score(wanted[rows], scores[one][rows] >= cut), one, cut) for one, cut in cuts.items())

    held_out = np.zeros(80, dtype=bool)
    for rest, part in folds:
        _, strength, cut = best(rest)
        held_out[part] = scores[strength][part] >= cut
    assert chosen[CROSS_VALIDATION] == pytest.approx(f1_score(wanted, held_out))
    assert chosen[CROSS_VALIDATION] < best(np.arange(80))[0]


def test_labels_share_strength_and_threshold_unless_macro_f1_is_the_metric() -> None:
    """By hand: one C and one threshold, chosen on the held-out scores of all labels together."""
    stream = np.random.default_rng(5)
    train = []
    for number in range(90):
        own = [name for name, share in (("a", 0.5), ("b", 0.1)) if stream.random() < share]
        clues = [name * 3 for name in own if stream.random() < 0.7]
        train.append(labelled(*own, text=" ".join([*stream.choice(list("pqrstuvw"), 4), *clues, f"word{number % 7}"])))
    features, _ = tfidf_features([one.text for one in train], ["x"])
    wanted, folds = present_labels([one.labels for one in train], ["a", "b"]), folds_without_strata(90, None)
    found = []
    for strength in STRENGTHS:
        model = LogisticRegression(C=strength, solver=SOLVER, tol=TOLERANCE, max_iter=1_000)
        columns = [cross_val_predict(model, features, one, cv=folds, method="predict_proba")[:, 1] for one in wanted.T]
        scores = np.stack(columns, axis=1)
        cut = best_thresholds(scores, wanted, "micro_f1")[0]
        fitted = [clone(model).fit(features, one).predict_proba(features)[:, 1] for one in wanted.T]
        found.append((f1_score(wanted, scores >= cut, average="micro"), strength, np.stack(fitted, axis=1) >= cut))
    shared, _ = linear_labels(train, train, ["a", "b"], "micro_f1")
    alone, _ = linear_labels(train, train, ["a", "b"], "macro_f1")
    assert (shared == max(found, key=lambda one: one[:2])[2]).all()
    assert (shared != alone).any(), "each label has its own threshold"
