"""Baseline of question answering."""

import pytest

from headswap.baselines.span import find_nearest_sentence, nearest_sentence
from headswap.data.records import Answer, SpanExample


def test_the_sentence_nearest_to_the_question_is_the_answer() -> None:
    context = "Anna plays chess. Bela lives in Rome. The film was fine."
    example = SpanExample("Where does Bela live?", context, (Answer("Rome", 32),), "x", 1)
    assert find_nearest_sentence(example) == "Bela lives in Rome."
    found = nearest_sentence([], [example])
    assert found["exact_match"] == 0
    assert found["f1"] == pytest.approx(2 * 1 / (4 + 1))
