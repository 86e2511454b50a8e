"""The linear model that ranks answers."""

import math
from dataclasses import replace
from typing import Any

import pytest

from headswap.baselines.linear_answers import (
    MOST_WORDS,
    Ranker,
    linear_answers,
    predict_answers,
    read_context,
    word_weights,
)
from headswap.baselines.span import nearest_sentence
from headswap.data.records import Answer, SpanExample
from task_data import questions


def grammar(count: int, seed: int, **more: Any) -> list[SpanExample]:
    rows = questions(count, seed=seed, **more)
    return [
        SpanExample(
            row["question"],
            row["context"],
            tuple(map(Answer, row["answers"]["text"], row["answers"]["answer_start"])),
            "tests",
            line,
        )
        for line, row in enumerate(rows, 1)
    ]


def test_answers_are_ranked_by_the_words_around_them() -> None:
    train, test = grammar(150, 1), grammar(50, 2)
    found = linear_answers(train, test)
    assert found["f1"] > 0.9
    assert found["f1"] > nearest_sentence(train, test)["f1"] + 0.5
    assert predict_answers(train, test) == predict_answers(train, test)


def test_no_answer_is_given_where_train_has_such_questions() -> None:
    train, test = grammar(200, 1, unanswerable=0.4), grammar(80, 2, unanswerable=0.4)
    found = linear_answers(train, test)
    assert found["f1_unanswerable"] > 0.8
    assert found["f1_answerable"] > 0.8
    assert all(predict_answers(grammar(50, 1), test)), "with an answer to every training question, all are answered"


@pytest.mark.parametrize(("num_contexts", "is_apart"), [(12, True), (7, True), (4, False)])
def test_the_threshold_is_chosen_on_contexts_that_were_not_fitted(
    num_contexts: int, is_apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every context has seven questions, the last without an answer; with fewer than five, questions are held out."""
    train = [
        replace(example, question=f"{example.question} {number}", answers=example.answers if number < 6 else ())
        for number in range(7)
        for example in [replace(one, context=f"{one.context} mark {at} .") for at, one in enumerate(grammar(12, 1))]
        [:num_contexts]
    ]  # fmt: skip
    fitted: list[SpanExample] = []
    ranked: list[SpanExample] = []
    fit, best = Ranker.fit, Ranker.best
    monkeypatch.setattr(Ranker, "fit", lambda rows, idf: fitted.extend(rows) or fit(rows, idf))
    monkeypatch.setattr(Ranker, "best", lambda self, example: ranked.append(example) or best(self, example))
    predict_answers(train, [])
    assert len(fitted) + len(ranked) == len(train)
    assert ranked
    shared = {example.context for example in fitted} & {example.context for example in ranked}
    assert (not shared) is is_apart


def test_an_answer_is_a_part_of_one_sentence_of_the_context() -> None:
    train = grammar(40, 1)
    ranker = Ranker.fit(train, word_weights(train))
    assert ranker is not None
    for example in grammar(20, 2):
        text, score = ranker.best(example)
        assert text in example.context
        assert " . " not in text
        assert math.isfinite(score)


def test_a_question_without_words_in_the_context_or_without_context_is_no_error() -> None:
    train = grammar(40, 1)
    odd = [SpanExample("?", "one two .", (), "tests", 1), SpanExample("who", " ", (), "tests", 2)]
    first, second = predict_answers(train, odd)
    assert first
    assert second == ""


@pytest.mark.parametrize("answers", [(), (Answer("x " * (MOST_WORDS + 1), 0),)])
def test_nothing_is_fitted_without_answers_that_can_be_candidates(answers: tuple[Answer, ...]) -> None:
    train = [SpanExample("what ?", "x " * 40, answers, "tests", 1)]
    assert predict_answers(train, train) == [""]


def test_the_question_is_part_of_the_features() -> None:
    example = SpanExample("Where does Anna live ?", "Anna lives in Rome . It rains .", (), "tests", 1)
    context = read_context(example, {"": 1.0})
    assert [word.group() for word in context.words][:5] == ["Anna", "lives", "in", "Rome", "."]
    assert context.sentences[0] == context.sentences[3] != context.sentences[-1]
    assert "first asked=True" in context.first[0]
    assert "first where does|Xxx" in context.first[3]
    assert "last out=." in context.last[3]
