"""Baselines: on a grammar whose words give the label away TF-IDF is right, and nothing is scored twice."""

from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from headswap.baselines import classify as module
from headswap.baselines.classify import baselines, majority_baseline, tfidf_baseline
from headswap.data.records import Example
from headswap.tokens.cache_entries import clear_cache, list_cache
from tiny import sentences


def examples(count: int, seed: int) -> list[Example]:
    return [Example(text, label, "tests", line) for line, (text, label) in enumerate(sentences(count, seed=seed), 1)]


def test_tfidf_learns_the_grammar() -> None:
    found = tfidf_baseline(examples(80, 1), examples(60, 2))
    assert found["accuracy"] > 0.95
    assert found["macro_f1"] > 0.95
    assert found["num_examples"] == 60
    assert found["C"] in module.STRENGTHS


def test_the_majority_is_counted_in_train_and_scored_on_test() -> None:
    train = [Example("x", label, "tests", 1) for label in ("b", "b", "b", "a")]
    test = [Example("x", label, "tests", 1) for label in ("a", "b", "a", "a")]
    found = majority_baseline(train, test)
    assert (found["label"], found["accuracy"]) == ("b", 0.25)
    assert found["macro_f1"] == pytest.approx((0 + 2 * 0.25 / 1.25) / 2)


def test_a_tie_goes_to_the_first_name() -> None:
    train = [Example("x", label, "tests", 1) for label in ("b", "a")]
    assert majority_baseline(train, train)["label"] == "a"


def test_one_example_a_class_is_enough() -> None:
    train = [Example("a fine film", "pos", "tests", 1), Example("a dull film", "neg", "tests", 2)]
    assert tfidf_baseline(train, train)["accuracy"] == 1


def test_the_same_texts_are_scored_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    train, test = examples(20, 1), examples(10, 2)
    first = baselines(train, test)
    assert set(first) == {"majority", "tfidf"}
    calls = []
    monkeypatch.setattr(module, "tfidf_baseline", lambda *sets: calls.append(sets) or {"accuracy": 0.0})
    assert baselines(train, test) == first
    assert not calls
    assert baselines(train, test[:-1])["tfidf"] == {"accuracy": 0.0}, "other texts are other scores"
    changed = [*train[:-1], Example(train[-1].text, "neg" if train[-1].label == "pos" else "pos", "tests", 1)]
    baselines(changed, test)
    assert len(calls) == 2, "so are other labels"


def test_turning_the_features_leaves_the_model_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    train, test = examples(60, 1), [*examples(40, 2), Example("a film of the story", "neg", "x", 1)]
    turned = tfidf_baseline(train, test)
    monkeypatch.setattr(module, "MOST_ROWS_TO_TURN", 0)
    assert tfidf_baseline(train, test) == turned
    vectors = csr_matrix(np.random.default_rng(0).random((6, 40)))
    few, more = module.turned(vectors[:4], vectors[4:])
    np.testing.assert_allclose(few @ few.T, (vectors[:4] @ vectors[:4].T).toarray())
    np.testing.assert_allclose(more @ few.T, (vectors[4:] @ vectors[:4].T).toarray())


def test_cached_baselines_are_listed_and_cleared_with_the_cache() -> None:
    train = examples(20, 1)
    baselines(train, train)
    assert [entry.kind for entry in list_cache()] == ["baselines"]
    clear_cache()
    assert list_cache() == []
