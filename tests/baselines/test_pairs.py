"""The linear model of pairs."""

import random
from typing import Any

import numpy as np
import pytest

from headswap.baselines.classify import tfidf_baseline
from headswap.baselines.pairs import overlap_numbers, pair_features, pairs_baseline, ridge_baseline
from headswap.baselines.regress import tfidf_baseline as tfidf_ridge
from headswap.baselines.scores import task_baselines
from headswap.core.errors import InputError
from headswap.data.records import Example

WORDS = ["film", "story", "actor", "scene", "music", "plot", "cast", "sound", "light", "camera"]


def pairs(count: int, seed: int) -> list[Example]:
    """Pairs of three words each; the value is the number of shared words, the label whether there are many."""
    stream, found = random.Random(seed), []
    for line in range(count):
        first, shared = stream.sample(WORDS, 3), stream.randrange(4)
        second = first[:shared] + stream.sample([word for word in WORDS if word not in first], 3 - shared)
        stream.shuffle(second)
        label = "same" if shared > 1 else "other"
        found.append(Example(" ".join(first), label, "tests", line, " ".join(second), value=float(shared)))
    return found


def test_what_two_texts_share_is_learnt_only_from_both() -> None:
    train, test = pairs(120, 1), pairs(80, 2)
    assert pairs_baseline(train, test)["accuracy"] > 0.95
    assert tfidf_baseline(train, test)["accuracy"] < 0.9, "the joined texts have each shared word twice"
    found = ridge_baseline(train, test)
    assert found["r2"] > 0.95
    assert found["r2"] > tfidf_ridge(train, test)["r2"]
    assert found["alpha"] > 0
    assert "cross_validation" not in found


def test_the_features_know_which_text_a_word_is_from() -> None:
    one, two = Example("rain", "a", "tests", 1, "sun"), Example("sun", "b", "tests", 2, "rain")
    train, test = pair_features([one, two], [one])
    assert train.shape[1] == test.shape[1]
    assert (train[0] != train[1]).nnz
    assert not (train[0] != test[0]).nnz


def test_the_numbers_of_a_pair() -> None:
    same = overlap_numbers("The film", "the film")
    assert same[:5] == [1, 1, 1, 1, 1]
    assert same[-1] == 1
    part = overlap_numbers("a b c", "a d")
    assert part[:5] == [1 / 4, 1 / 3, 1 / 2, 1 / 2, 0]
    assert all(np.isfinite(overlap_numbers("...", "?")))


@pytest.mark.parametrize("task", ["classify", "regress"])
def test_pairs_have_the_baseline_and_single_texts_have_not(task: str) -> None:
    train = pairs(30, 1)
    found = task_baselines(task, train, train[:10])
    assert set(found) == {"classify": {"majority", "tfidf", "pairs"}, "regress": {"mean", "tfidf", "pairs"}}[task]
    assert task_baselines(task, train, train[:10]) == found, "from the cache"
    single: list[Any] = [Example(one.text, one.label, "tests", one.line, value=one.value) for one in train]
    assert "pairs" not in task_baselines(task, single, single[:10])


def test_a_single_text_is_refused_with_its_line() -> None:
    with pytest.raises(InputError, match=r"tests, line 7: .* needs two texts"):
        pair_features(pairs(5, 1), [Example("x", "same", "tests", 7)])
