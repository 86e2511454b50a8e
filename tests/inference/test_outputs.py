"""Batches of tokens for inference, work that is spread over processes, and truncated sequences."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from bundles import make_bundle
from headswap.batches.labelled_rows import Row
from headswap.inference import outputs
from headswap.inference.outputs import make_sequences, outputs_of, token_batches
from headswap.tokens.tokenizer import Tokenizer
from tiny import random_sequences


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


def test_spread_work_has_the_outputs_of_one_process(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(outputs.TOKENS_PER_BATCH, "cpu", 16)
    sizes: list[int] = []

    def by_two(work: Callable[[Any], Any], items: Sequence[Any], /) -> list[Any]:
        """As two processes do it: the second one has every other item."""
        parts = [[work(item) for item in items[rank::2]] for rank in (1, 0)]
        sizes.append(len(items))
        return [parts[1 - place % 2][place // 2] for place in range(len(items))]

    for head in ("classify", "tag"):
        model = make_bundle(tokenizer, head).model
        rows = [Row(number, ids) for number, ids in enumerate(random_sequences([9, 3, 12, 7, 5], vocab_size=200))]
        alone, spread = outputs_of(model, rows), outputs_of(model, rows, spread=by_two)
        assert all(np.array_equal(one, other) for one, other in zip(alone, spread, strict=True))
    assert min(sizes) > 2
