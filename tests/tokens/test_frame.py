"""Frames around texts, and the post-processor of tokenizer.json that keeps them."""

import numpy as np
import pytest

from headswap.core.errors import InputError
from headswap.tokens.frame import Frame, frame_in, roles_in

FRAMES = [
    Frame(1, before=(1,), between=(5,)),
    Frame(2, before=(2,), between=(3,), after=(3,)),
    Frame(2, before=(2,), between=(3, 3), after=(3,)),
    Frame(0, before=()),
]
ROLES = {"sos": 2, "pad": 0, "eos": 3}


def piece(id: int) -> str:
    return f"<{id}>"


@pytest.mark.parametrize("frame", FRAMES)
def test_the_number_of_tokens_is_what_the_sequences_have(frame: Frame) -> None:
    first, second = np.array([7, 8]), np.array([9])
    assert len(frame.around(first)) == 2 + frame.num_single
    assert len(frame.around_pair(first, second)) == 3 + frame.num_pair


def test_the_texts_are_between_the_tokens_of_the_frame() -> None:
    frame = Frame(2, before=(2,), between=(3, 4), after=(5,))
    assert frame.around(np.array([7])).tolist() == [2, 7, 5]
    assert frame.around_pair(np.array([7]), np.array([8])).tolist() == [2, 7, 3, 4, 8, 5]


def test_a_text_without_tokens_is_the_start_token_if_the_frame_is_empty() -> None:
    assert Frame(4, before=()).around(np.zeros(0, dtype=int)).tolist() == [4]
    assert Frame(4, before=()).around(np.array([7])).tolist() == [7]


@pytest.mark.parametrize("frame", FRAMES)
def test_frame_and_roles_are_read_back_from_the_post_processor(frame: Frame) -> None:
    content = {"post_processor": frame.as_template(piece, ROLES)}
    assert frame_in(content, frame.start, "x") == frame
    assert roles_in(content, 10, "x") == ROLES


def test_a_tokenizer_without_roles_has_none_and_invalid_roles_are_an_error() -> None:
    assert roles_in({"post_processor": FRAMES[0].as_template(piece)}, 10, "x") == {}
    assert roles_in({}, 10, "x") == {}
    for roles, vocab_size in (({"sos": 2, "pad": 0}, 10), (ROLES, 3)):
        with pytest.raises(InputError, match="x: its post-processor names no valid start"):
            roles_in({"post_processor": FRAMES[0].as_template(piece, roles)}, vocab_size, "x")


def test_a_post_processor_that_joins_three_texts_is_an_error() -> None:
    template = FRAMES[0].as_template(piece)
    template["pair"] = [*template["pair"], {"Sequence": {"id": "C", "type_id": 1}}]
    with pytest.raises(InputError, match="exactly two texts"):
        frame_in({"post_processor": template}, 1, "x")
