"""The linear tagger."""

import numpy as np
import pytest

from headswap.baselines.linear_tagger import (
    FORBIDDEN,
    allowed_transitions,
    best_sequence,
    linear_tagger,
    predict_tags,
    word_features,
    word_shape,
)
from headswap.baselines.tag import most_frequent_tags
from headswap.data.records import TaggedExample
from task_data import tagged


def example(text: str, tags: str) -> TaggedExample:
    return TaggedExample(tuple(text.split()), tuple(tags.split()), "tests", 1)


def grammar(count: int, seed: int) -> list[TaggedExample]:
    return [TaggedExample(tuple(row["tokens"]), tuple(row["tags"]), "tests", 1) for row in tagged(count, seed=seed)]


def test_a_word_is_tagged_by_its_neighbours() -> None:
    train, test = grammar(200, 1), grammar(80, 2)
    found = linear_tagger(train, test)
    assert found["f1"] > 0.97
    assert found["f1"] > most_frequent_tags(train, test)["f1"] + 0.1
    assert found["num_examples"] == 80
    assert predict_tags(train, test) == predict_tags(train, test)


def test_an_unknown_word_is_tagged_by_its_shape_and_the_words_around_it() -> None:
    train = [
        example(f"fly to {name} on 1{day}", "O O B-CITY O B-DAY") for day, name in enumerate(["Rome", "Oslo", "Bern"])
    ]
    assert predict_tags(train, [example("fly to Lima on 19", "O O B-CITY O B-DAY")]) == [
        ["O", "O", "B-CITY", "O", "B-DAY"]
    ]


def test_the_features_have_two_words_on_each_side() -> None:
    first, *_, last = word_features(["from", "New", "York", "to", "Lima"])
    assert {"w0=", "w1=", "w2=from", "w3=new", "w4=york", "p2=from new", "prefix=fr", "suffix=om", "s1=Xxx"} <= {*first}
    assert {"w0=york", "w1=to", "w2=lima", "w3=", "w4="} <= {*last}
    assert "prefix=lima" not in last, "that is the word"


@pytest.mark.parametrize(("token", "shape"), [("Boeing-747", "Xxx-99"), ("a", "x"), ("NASA", "XX"), ("ß.É", "x.X")])
def test_the_shape_of_a_word(token: str, shape: str) -> None:
    assert word_shape(token) == shape


def test_an_entity_is_continued_only_after_its_own_type() -> None:
    tags = ["B-A", "B-C", "I-A", "I-C", "O"]
    first, pairs = allowed_transitions(tags, [example("x y z", "B-A I-A O")])
    assert [tag for tag, value in zip(tags, first, strict=True) if value == FORBIDDEN] == ["I-A", "I-C"]
    after = {tag: [tags[row] for row in range(5) if pairs[row, number] == 0] for number, tag in enumerate(tags)}
    assert after == {"B-A": tags, "B-C": tags, "I-A": ["B-A", "I-A"], "I-C": ["B-C", "I-C"], "O": tags}
    scores = np.array([[1.0, 0, 0, 0, 2], [0, 0, 3, 0, 1.5]])
    assert best_sequence(scores, first, pairs) == [0, 2], "O, I-A has the highest scores, but is not allowed"
    assert best_sequence(scores, np.zeros(5), np.zeros((5, 5))) == [4, 2]


@pytest.mark.parametrize("tags", ["I-A I-A O", "NOUN VERB NOUN"])
def test_a_scheme_without_b_has_no_rule(tags: str) -> None:
    first, pairs = allowed_transitions(sorted(set(tags.split())), [example("x y z", tags)])
    assert not first.any()
    assert not pairs.any()


def test_one_tag_and_two_tags_are_no_error() -> None:
    one = [example("a b", "O O")]
    assert predict_tags(one, [example("c", "O")]) == [["O"]]
    two = [example("the film", "DET NOUN"), example("the story", "DET NOUN")]
    assert predict_tags(two, [example("the actor", "DET NOUN")]) == [["DET", "NOUN"]]
