"""The question answering task: spans in windows, empty answers."""

from dataclasses import replace

import numpy as np
import pytest

from headswap.bundle.task_state import TaskState
from headswap.data.records import Answer, SpanExample
from headswap.tasks.choose import named_task
from headswap.tasks.span import ContextRow, best_span, tokens_of
from headswap.tokens.tokenizer import Tokenizer
from task_data import examples_of, tiny_bundle

pytestmark = pytest.mark.usefixtures("one_thread")


def context_row(starts: list[int], ends: list[int]) -> ContextRow:
    return ContextRow(0, np.arange(len(starts)), starts=np.array(starts), ends=np.array(ends))


def test_the_tokens_of_an_answer_are_found_if_the_window_contains_all_of_them() -> None:
    row = context_row([-1, -1, 0, 4, 6, 11], [-1, -1, 3, 5, 10, 15])
    assert tokens_of(row, 4, 10) == (3, 4)
    assert tokens_of(row, 6, 9) == (4, 4), "inside a token"
    assert tokens_of(row, 6, 20) is None, "it ends after the window"
    assert tokens_of(row, 20, 24) is None


def test_the_best_span_is_the_best_of_all_pairs() -> None:
    stream = np.random.default_rng(0)
    for longest in (1, 2, 3, 30) * 5:
        output = np.log(stream.dirichlet(np.ones(9), 2).T)
        row = context_row([-1, -1, -1, 0, 3, 5, 5, 8, 9], [-1, -1, -1, 2, 4, 5, 7, 9, 12])
        pairs = {
            (a, b): output[a, 0] + output[b, 1]
            for a in (3, 4, 6, 7, 8)
            for b in (3, 4, 6, 7, 8)
            if 0 <= b - a < longest
        }
        (first, last), score = max(pairs.items(), key=lambda item: item[1])
        found = best_span(row, output, longest=longest)
        assert found is not None
        assert (found.start, found.end) == (row.starts[first], row.ends[last])
        assert found.score == pytest.approx(score)
    assert best_span(context_row([-1, -1], [-1, -1]), output[:2], longest=3) is None


def test_contexts_are_read_in_windows_with_the_question_in_front(tokenizer: Tokenizer) -> None:
    (example,) = examples_of("span", 1, padding=6)
    bundle, task = tiny_bundle(tokenizer, "span", max_length=40), named_task("span")
    encoded = task.encode([example], bundle)
    front = [tokenizer.sos_id, *tokenizer.encode(example.question)[:18], tokenizer.sep_id]
    assert len(encoded.rows) > 2
    context: dict[int, str] = {}
    for row in encoded.rows:
        assert row.ids[: len(front)].tolist() == front
        assert len(row.ids) <= 40
        for start, end in zip(row.starts[len(front) :], row.ends[len(front) :], strict=True):
            context[start] = example.context[start:end]
    assert "".join(context[start] for start in sorted(context)) == example.context.replace(" ", "")
    answer = example.answers[0]
    holders = [row for row in encoded.rows if row.target_index.tolist() != [0, 0]]
    assert 1 <= len(holders) < len(encoded.rows)
    for row in holders:
        first, last = row.target_index
        assert example.context[row.starts[first] : row.ends[last]] == answer.text


def test_an_answer_that_no_window_contains_completely_is_noted(tokenizer: Tokenizer) -> None:
    context = " ".join(["film"] * 60)
    example = SpanExample("q ?", context, (Answer(context, 0),), "x", 1)
    encoded = named_task("span").encode([example], tiny_bundle(tokenizer, "span", max_length=24))
    assert any("1 answer not completely in any window" in str(note) for note in encoded.notes)


def test_an_empty_answer_is_predicted_only_if_train_has_one(tokenizer: Tokenizer) -> None:
    (example,) = examples_of("span", 1)
    task = named_task("span")
    for allowed in (False, True):
        bundle = tiny_bundle(tokenizer, "span", has_unanswerable=allowed)
        encoded = task.encode([example], bundle)
        outputs = [np.full((len(row.ids), 2), -9.0) for row in encoded.rows]
        for output in outputs:
            output[0] = 0.0
        (answer,) = task.predictions(outputs, encoded, bundle)
        assert (answer.answer == "") == allowed
        assert (answer.start is None) == allowed
    assert task.initial_state(TaskState(), [replace(example, answers=())]).has_unanswerable
