"""The overlap check: equal texts, near duplicates, and streaming."""

from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headswap.core.errors import SettingError
from headswap.core.random_streams import numpy_stream
from headswap.data.fingerprints import normalised
from headswap.data.overlap import NEAR, find_overlap, similarity

WORDS = [f"word{number}" for number in range(400)]


def long_text(seed: int, *, num_words: int = 120) -> list[str]:
    return numpy_stream(seed, "overlap").choice(WORDS, num_words).tolist()


def test_case_breaks_and_white_space_make_no_difference() -> None:
    assert normalised("A  Fine<br /><BR>film,\n\tthis. ") == "a fine film, this."


def test_counts_are_rows_of_the_first_set_whose_text_is_in_the_second() -> None:
    sets = {"train": ["a b c", "A B  C", "x y z", "p q"], "test": ["a b c", "m n o", "m n o"]}
    found = find_overlap(sets, pairs=[("train", "test"), ("test", "train"), ("train", "train"), ("test", "test")])
    assert [(o.from_set, o.to_set, o.exact, o.near, o.num_rows) for o in found] == [
        ("train", "test", [0, 1], [], 4),
        ("test", "train", [0], [], 3),
        ("train", "train", [1], [], 4),
        ("test", "test", [2], [], 3),
    ]


def test_a_text_with_one_word_changed_is_near_and_not_exact() -> None:
    words = long_text(1)
    changed = [*words[:60], "other", *words[61:]]
    (found,) = find_overlap({"train": [" ".join(changed)], "test": [" ".join(words)]}, pairs=[("train", "test")])
    assert (found.exact, found.near, found.rows) == ([], [0], [0])
    (example,) = found.examples
    assert example.similarity == pytest.approx(115 / 121)  # 118 trigrams, three of them changed
    assert example.kind == "near"


def test_the_same_words_with_other_punctuation_are_near() -> None:
    (found,) = find_overlap({"a": ["a fine film ."], "b": ["a fine film !"]}, pairs=[("a", "b")])
    assert (found.exact, found.near) == ([], [0])


def test_a_text_half_changed_is_no_near_duplicate() -> None:
    words = long_text(2)
    half = [*words[:60], *long_text(3)[:60]]
    assert similarity(" ".join(words), " ".join(half)) < NEAR
    (found,) = find_overlap({"a": [" ".join(half)], "b": [" ".join(words)]}, pairs=[("a", "b")])
    assert (found.exact, found.near, found.contained) == ([], [], [0])


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), num_changed=st.integers(0, 12))
def test_the_matches_equal_those_of_comparing_every_pair(seed: int, num_changed: int) -> None:
    texts = [long_text(seed * 7 + number) for number in range(5)]
    stream = numpy_stream(seed, "changes")
    copies = [list(words) for words in texts[:3]]
    for words in copies:
        for place in stream.integers(0, len(words), num_changed):
            words[place] = "changed"
    ours, theirs = [" ".join(words) for words in copies], [" ".join(words) for words in texts]
    (found,) = find_overlap({"a": ours, "b": theirs}, pairs=[("a", "b")])
    equal_or_near = sorted([*found.exact, *found.near])
    assert equal_or_near == [row for row, text in enumerate(ours) if max(similarity(text, o) for o in theirs) >= NEAR]


def test_texts_without_spaces_are_compared_by_character() -> None:
    text = "この映画はとても面白かったので、もう一度見たいと思います。友達にも勧めました。"
    (found,) = find_overlap({"a": [text.replace("達", "人")], "b": [text]}, pairs=[("a", "b")])
    assert found.near == [0]


@pytest.mark.parametrize("text", ["", "   ", "!!!", "a", "👍"])
def test_texts_without_words_are_compared(text: str) -> None:
    (found,) = find_overlap({"a": [text], "b": ["something else entirely", text]}, pairs=[("a", "b")])
    assert found.exact == [0]


def test_a_from_set_is_read_once_as_a_stream() -> None:
    read: list[int] = []

    def corpus() -> Iterator[str]:
        for number in range(50):
            read.append(number)
            yield f"document {number} of the stream"

    sets = {"corpus": corpus(), "test": ["document 7 of the stream"], "train": ["document 9 of the stream"]}
    to_test, to_train = find_overlap(sets, pairs=[("corpus", "test"), ("corpus", "train")])
    assert read == list(range(50))
    assert (to_test.exact, to_train.exact) == ([7], [9])


def test_json_has_the_names_of_the_sets_and_optionally_no_texts() -> None:
    (found,) = find_overlap({"train": ["a b c"], "test": ["a b c"]}, pairs=[("train", "test")])
    content = found.as_json()
    assert {name: content[name] for name in ("from", "to", "exact_rows", "near_rows", "rows")} == {
        "from": "train", "to": "test", "exact_rows": 1, "near_rows": 0, "rows": 1,
    }  # fmt: skip
    assert content["examples"][0]["from_text"] == "a b c"
    assert "a b c" not in str(found.as_json(with_texts=False))


def test_an_unknown_set_is_reported() -> None:
    with pytest.raises(SettingError, match="'tset' is not one of the sets"):
        find_overlap({"train": [], "test": []}, pairs=[("train", "tset")])
