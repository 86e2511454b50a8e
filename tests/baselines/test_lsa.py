"""LSA: a linear model that knows from the corpus which words occur in the same texts."""

import numpy as np
import pytest

from headswap.baselines import lsa_space, tfidf
from headswap.baselines.classify import tfidf_baseline
from headswap.baselines.lsa import lsa_baseline
from headswap.baselines.lsa_space import TextSpace
from headswap.baselines.tfidf import TooManyClassesError
from headswap.core.errors import InputError
from headswap.data.records import Example

TOPICS = tuple(tuple(f"{topic}{number}" for number in range(12)) for topic in ("sea", "sun", "ice"))
LABELS = ["0", "1", "2"]


def text(topic: int, stream: np.random.Generator, words: slice = slice(None)) -> str:
    return " ".join(stream.choice(TOPICS[topic][words], 5))


@pytest.fixture(scope="module")
def space() -> TextSpace:
    """Three dimensions of a corpus of three topics; no text of it is labelled."""
    stream = np.random.default_rng(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lsa_space, "DIMENSIONS", 3)
        return TextSpace.fit(text(number % 3, stream) for number in range(300))[0]


def labelled(count: int, seed: int, words: slice) -> list[Example]:
    stream = np.random.default_rng(seed)
    return [Example(text(at % 3, stream, words), str(at % 3), "x", at) for at in range(count)]


def test_words_that_no_label_has_are_known_from_the_corpus(space: TextSpace) -> None:
    """The labelled texts have the first three words of each topic, the test texts the other nine."""
    train, test = labelled(12, 1, slice(0, 3)), labelled(60, 2, slice(3, 12))
    shares, chosen = lsa_baseline.fit(train, test, LABELS, "accuracy", space=space)
    truth = [int(one.label) for one in test]
    assert (shares.argmax(axis=1) == truth).all()
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    assert chosen["features"] in ("lsa", "lsa and tfidf")
    assert tfidf_baseline(train, test)["accuracy"] < 0.5


def test_the_same_labels_give_the_same_bits(space: TextSpace) -> None:
    train, test = labelled(30, 1, slice(0, 6)), labelled(9, 2, slice(0, 12))
    first, again = (lsa_baseline.fit(train, test, LABELS, "accuracy", space=space) for _ in range(2))
    assert np.array_equal(first[0], again[0])
    assert first[1] == again[1]


def test_tfidf_of_the_labelled_texts_is_chosen_where_the_corpus_does_not_know_their_words(space: TextSpace) -> None:
    train = [Example(f"sea1 sea2 {word}", word, "x", at) for at, word in enumerate(["yes", "no"] * 10)]
    shares, chosen = lsa_baseline.fit(train, train, ["no", "yes"], "accuracy", space=space)
    assert (chosen["features"], chosen["cross_validation"]) == ("lsa and tfidf", 1.0)
    assert shares.argmax(axis=1).tolist() == [1, 0] * 10


def test_one_example_per_class_is_enough(space: TextSpace) -> None:
    train = labelled(3, 1, slice(0, 12))
    shares, chosen = lsa_baseline.fit(train, labelled(30, 2, slice(0, 12)), LABELS, "accuracy", space=space)
    assert (shares.argmax(axis=1) == np.arange(30) % 3).all()
    assert chosen == {"features": "lsa and tfidf", "C": 100.0, "cross_validation": None}


def test_sparse_features_give_the_same_model(space: TextSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    train, test = labelled(30, 1, slice(0, 12)), labelled(9, 2, slice(0, 12))
    dense = lsa_baseline.fit(train, test, LABELS, "accuracy", space=space)
    monkeypatch.setattr(tfidf, "MAX_ROWS_TO_ROTATE", 0)
    sparse = lsa_baseline.fit(train, test, LABELS, "accuracy", space=space)
    np.testing.assert_allclose(dense[0], sparse[0], atol=1e-3)
    assert dense[1] == sparse[1]


def test_too_many_classes_are_refused(space: TextSpace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tfidf, "MANY_CLASSES", 2)
    monkeypatch.setattr(tfidf, "MOST_COEFFICIENTS", 95)
    train = labelled(30, 1, slice(0, 12))
    with pytest.raises(
        TooManyClassesError, match=r"LSA \+ logistic regression is not fitted: 3 classes x \d+ features"
    ):
        lsa_baseline.fit(train, train, LABELS, "accuracy", space=space)


def test_without_a_space_it_is_an_error() -> None:
    with pytest.raises(InputError, match="needs a space of texts that was fitted on a corpus"):
        lsa_baseline(labelled(6, 1, slice(0, 12)), labelled(3, 2, slice(0, 12)))
