"""Exact match and F1 of answers, by SQuAD's normalisation."""

import pytest

from headswap.metrics import squad


@pytest.mark.parametrize(
    ("answer", "compared"),
    [
        ("The Eiffel Tower!", "eiffel tower"),
        ("an apple,  a day", "apple day"),
        ("U.S.", "us"),
        ("theatre", "theatre"),
        ("\tA\n", ""),
    ],
)
def test_answers_are_compared_without_case_punctuation_articles_and_blanks(answer: str, compared: str) -> None:
    assert squad.normalised(answer) == compared


def test_the_best_of_the_right_answers_counts() -> None:
    assert squad.exact_match("the Rome", ["Paris", "rome."]) == 1
    assert squad.exact_match("in Rome", ["Rome"]) == 0
    assert squad.f1("in Rome", ["Rome", "Oslo"]) == pytest.approx(2 / 3)
    assert squad.f1("new york city", ["york new"]) == pytest.approx(0.8)
    assert squad.f1("x x", ["x"]) == pytest.approx(2 / 3), "a word counts as often as both have it"


def test_only_an_empty_answer_is_right_for_an_unanswerable_question() -> None:
    assert (squad.exact_match("", []), squad.f1("", [])) == (1, 1)
    assert (squad.exact_match("rome", []), squad.f1("rome", [])) == (0, 0)
    assert squad.f1("", ["rome"]) == 0
