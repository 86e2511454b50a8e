"""Spaces of texts: the exact SVD, the same bits again, bounded samples, files without pickle."""

import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from threadpoolctl import threadpool_limits

from headswap.baselines import lsa_space
from headswap.baselines.lsa_space import ARRAYS, TextSpace, sample_texts
from headswap.core.errors import InputError
from headswap.core.manifest import write_manifest

WORDS = [f"w{number}" for number in range(40)]


def corpus(count: int = 60, seed: int = 0) -> list[str]:
    """Documents of two topics, each with its own half of the words."""
    stream = np.random.default_rng(seed)
    halves = (WORDS[:20], WORDS[20:])
    return [" ".join(stream.choice(halves[at % 2], 12)) + " all" for at in range(count)]


def test_the_directions_are_those_of_the_exact_svd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lsa_space, "DIMENSIONS", 3)
    space, facts = TextSpace.fit(corpus())
    features = TfidfVectorizer(sublinear_tf=True, token_pattern=r"\w+").fit_transform(corpus())
    exact = np.linalg.svd(features.toarray())[2][:3]
    assert facts == {"num_documents": 60, "num_sampled": 60, "num_cut": 0, "num_words": 41, "dimensions": 3}
    np.testing.assert_allclose(np.abs(space.directions @ exact.T)[:2, :2], np.eye(2), atol=1e-4)
    expected = (features @ space.directions.T)[:5]
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(space.vectors(corpus()[:5]), expected, atol=1e-5)


def test_the_same_corpus_gives_the_same_bits_whatever_the_threads() -> None:
    with threadpool_limits(1):
        one, _ = TextSpace.fit(corpus(300))
    with threadpool_limits(2):
        two, _ = TextSpace.fit(corpus(300))
    assert one.fingerprint == two.fingerprint
    assert np.array_equal(one.vectors(corpus(9, 1)), two.vectors(corpus(9, 1)))
    assert TextSpace.fit(corpus(300, seed=3))[0].fingerprint != one.fingerprint


def test_a_text_without_a_known_word_is_the_zero_vector() -> None:
    space, _ = TextSpace.fit(corpus())
    assert not space.vectors(["nothing of it"]).any()
    assert np.linalg.norm(space.vectors(["w1 nothing"])) == pytest.approx(1)


def test_a_large_corpus_is_sampled_in_one_pass_and_reported(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(lsa_space, "MOST_DOCUMENTS", 50)
    monkeypatch.setattr(lsa_space, "MOST_CHARACTERS", 8)
    caplog.set_level(logging.INFO, logger="headswap")

    def stream() -> Iterator[str]:
        yield from (f"text{number}" + "!" * (number % 10) for number in range(1_000))

    found, facts = sample_texts(stream())
    assert facts == {"num_documents": 1_000, "num_sampled": 50, "num_cut": 789}
    numbers = [int(text.removeprefix("text").rstrip("!")) for text in found]
    assert numbers == sorted(set(numbers))
    assert 350 < np.mean(numbers) < 650, "from all parts of the corpus"
    assert max(map(len, found)) == 8
    assert sample_texts(stream())[0] == found
    assert "lsa: fitted on a fixed random sample of 50 of the 1,000 documents." in caplog.messages
    assert "lsa: of 789 of 1,000 documents only the first 8 characters are read." in caplog.messages


def test_the_number_of_words_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lsa_space, "MOST_WORDS", 5)
    space, facts = TextSpace.fit(corpus())
    assert (len(space.words), facts["num_words"], facts["dimensions"]) == (5, 5, 5)
    assert "all" in space.words, "the most frequent ones"


def test_words_of_one_document_are_used_if_there_are_no_others() -> None:
    assert TextSpace.fit(["one two", "three"])[0].words == ("one", "three", "two")
    assert "w1" not in TextSpace.fit(["w1 all", "w2 all"])[0].words


def test_a_corpus_without_words_is_an_error() -> None:
    with pytest.raises(InputError, match="the corpus has no words"):
        TextSpace.fit(["...", "!!"])


def test_a_space_is_saved_without_pickle_and_read_again(tmp_path: Path) -> None:
    space, _ = TextSpace.fit(corpus())
    space.save(tmp_path)
    write_manifest(tmp_path)
    again = TextSpace.load(tmp_path)
    assert again.fingerprint == space.fingerprint
    with np.load(tmp_path / ARRAYS, allow_pickle=False) as arrays:
        assert {name: arrays[name].dtype for name in arrays} == {"idf": np.float32, "directions": np.float32}


@pytest.mark.parametrize("has_manifest", [True, False])
def test_a_damaged_space_is_an_error(tmp_path: Path, has_manifest: bool) -> None:
    TextSpace.fit(corpus())[0].save(tmp_path)
    if has_manifest:
        write_manifest(tmp_path)
    (tmp_path / ARRAYS).write_bytes((tmp_path / ARRAYS).read_bytes()[:-200])
    with pytest.raises(InputError, match="the same study fits it again"):
        TextSpace.load(tmp_path)
