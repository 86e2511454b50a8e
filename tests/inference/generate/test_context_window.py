"""What is kept of a text that is longer than the context."""

import pytest

from headswap.inference.generate.context_window import kept_when_full, within_context


def test_a_long_prompt_keeps_its_last_tokens_and_warns(caplog: pytest.LogCaptureFixture) -> None:
    assert within_context([1, 2, 3], 3) == [1, 2, 3]
    assert not caplog.messages
    assert within_context([1, 2, 3, 4], 3) == [2, 3, 4]
    assert caplog.messages == ["The prompt has 4 tokens; the model uses the last 3 of them."]


def test_half_of_a_full_context_is_read_again() -> None:
    assert kept_when_full(list(range(9)), 8) == [5, 6, 7, 8]
