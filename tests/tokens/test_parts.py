"""Long texts in parts: the ids, marks and offsets are those of the whole text."""

import json

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headswap.core.errors import InputError
from headswap.tokens import parts
from headswap.tokens.parts import BLANK, BLANK_OR_LINE_END, cut_pattern, groups_of
from headswap.tokens.tokenizer import Tokenizer
from tiny_tokenizers import KINDS, trained

SIGNS = "ab fFilm'tsÉé.,<>#_1 \n\t\r\u00a0\u0301\u00a8\u2028\u3000▁漢😀\u200d"
TEXTS = st.lists(st.one_of(st.text(SIGNS, max_size=60), st.text(max_size=40)), max_size=4)


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_text_in_parts_has_the_ids_and_marks_of_the_whole_text(
    kind: str, lowercase: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokenizer = trained(kind, lowercase=lowercase)
    assert tokenizer._cuts is not None
    whole = Tokenizer(tokenizer._serialised)
    whole._cuts = None
    monkeypatch.setattr(parts, "PART_CHARACTERS", 3)
    monkeypatch.setattr(parts, "GROUP_CHARACTERS", 20)

    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
    @given(TEXTS)
    def check(texts: list[str]) -> None:
        for one, other in zip(tokenizer.encode_batch(texts), whole.encode_batch(texts), strict=True):
            assert one.tolist() == other.tolist()
        for encode in ("encode_batch_marked", "encode_batch_placed"):
            for one, other in zip(getattr(tokenizer, encode)(texts), getattr(whole, encode)(texts), strict=True):
                for name in one.__slots__:
                    np.testing.assert_array_equal(getattr(one, name), getattr(other, name))

    check()


def test_a_text_is_cut_into_parts_and_groups_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_CHARACTERS", 4)
    monkeypatch.setattr(parts, "GROUP_CHARACTERS", 12)
    groups = list(groups_of(["one two three", "a", "b  c"], BLANK))
    assert groups == [[(0, 0, "one two"), (0, 7, " three")], [(1, 0, "a"), (2, 0, "b  c")]]


def test_a_text_that_cannot_be_cut_is_refused_where_it_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = trained()
    monkeypatch.setattr(parts, "PART_CHARACTERS", 4)
    monkeypatch.setattr(parts, "LONGEST_PART", 10)
    assert len(tokenizer.encode("a b c d e f g h i j k l")) > 10
    with pytest.raises(InputError, match="has more than 10 characters without a blank, from character 6 on: too many"):
        tokenizer.encode("a b c d" + 11 * "x")


@pytest.mark.parametrize(
    ("change", "pattern"),
    [
        ({}, BLANK_OR_LINE_END),
        ({"normalizer": {"type": "Strip"}}, None),
        ({"pre_tokenizer": None}, None),
        ({"pre_tokenizer": {"type": "ByteLevel", "use_regex": False}}, None),
        ({"pre_tokenizer": {"type": "Metaspace", "split": False}}, None),
        ({"pre_tokenizer": {"type": "Metaspace"}}, BLANK),
        ({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True}}, BLANK),
        ({"pre_tokenizer": {"type": "Sequence", "pretokenizers": "damaged"}}, None),
        ({"added_tokens": [{"content": "a film", "special": False}]}, None),
    ],
)
def test_a_tokenizer_that_looks_beyond_a_blank_is_not_cut(change: dict, pattern: object) -> None:
    assert cut_pattern(json.loads(trained()._serialised) | change) is pattern
