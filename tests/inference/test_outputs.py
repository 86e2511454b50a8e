"""Batches of tokens for inference, and truncated sequences."""

import logging

import numpy as np
import pytest

from headswap.inference.outputs import make_sequences, token_batches
from headswap.tokens.tokenizer import Tokenizer


def test_batches_have_every_sequence_once_in_order_and_at_most_the_budget_of_tokens() -> None:
    lengths = [3, 4, 4, 9, 2, 1]
    sequences = [np.zeros(length) for length in lengths]
    batches = token_batches([4, 5, 0, 1, 2, 3], sequences, 8)
    assert batches == [[4, 5, 0], [1, 2], [3]], "a sequence longer than the budget is a batch of its own"


def test_truncated_tokens_are_counted_and_reported(tokenizer: Tokenizer, caplog: pytest.LogCaptureFixture) -> None:
    sequences = make_sequences(["the film was fine .", "a"], tokenizer, max_length=3)
    lengths = [len(tokenizer.encode(text)) + 1 for text in ("the film was fine .", "a")]
    assert [len(ids) for ids in sequences.ids] == [3, min(3, lengths[1])]
    assert all(ids[0] == tokenizer.sos_id for ids in sequences.ids)
    assert sequences.truncated_share == sum(max(0, length - 3) for length in lengths) / sum(lengths) > 0
    with caplog.at_level(logging.WARNING, logger="headswap"):
        sequences.warn_of_truncation(3)
    assert f"{100 * sequences.truncated_share:.1f} % of the tokens were cut off" in caplog.text
