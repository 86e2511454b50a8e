"""The outputs of a head for many sequences, in input order.

Sequences are sorted by length, so that a batch has sequences of similar length, and batches have a fixed number of
tokens, so that memory does not grow with the data. The outputs of a sequence do not depend on the others of its batch.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import torch

from headswap.batches.labelled_rows import NOTHING, Row, batch_of
from headswap.core.errors import RunError
from headswap.model.heads import LanguageModelHead
from headswap.model.text_model import TextModel
from headswap.tokens.tokenizer import Tokenizer

log = logging.getLogger("headswap")
T = TypeVar("T")
R = TypeVar("R")
LEAST_SHARE = 0.1
"""Smaller shares of tokens in per cent are not written as a number."""
TOKENS_PER_BATCH = {"cpu": 2_048, "cuda": 131_072}


class Spread(Protocol):
    """Does some work for each item, perhaps in several processes; the results are in the order of the items."""

    def __call__(self, work: Callable[[T], R], items: Sequence[T], /) -> list[R]: ...


def in_this_process(work: Callable[[T], R], items: Sequence[T], /) -> list[R]:
    """Does all of the work here."""
    return [work(item) for item in items]


@dataclass(frozen=True, slots=True)
class Sequences:
    """Texts as token ids with the special tokens around them, and how many tokens were cut off."""

    ids: list[np.ndarray]
    num_tokens: int
    num_truncated: int

    @property
    def truncated_share(self) -> float:
        """Share of the tokens that were cut off."""
        return self.num_truncated / max(1, self.num_tokens)

    def warn_of_truncation(self, max_length: int) -> None:
        """Log a warning if tokens were cut off."""
        if self.num_truncated:
            warn_of_truncation(self.num_truncated, self.num_tokens, max_length)


def warn_of_truncation(num_truncated: int, num_tokens: int, max_length: int) -> None:
    """Log which share of the tokens was cut off."""
    share = 100 * num_truncated / max(1, num_tokens)
    shown = f"{share:.1f} %" if share >= LEAST_SHARE else f"Less than {LEAST_SHARE} %"
    log.warning("%s of the tokens were cut off: the model reads at most %d per text.", shown, max_length)


def make_sequences(texts: Sequence[str], tokenizer: Tokenizer, *, max_length: int) -> Sequences:
    """Encode texts and truncate each at the limit."""
    encoded = tokenizer.encode_batch(list(texts))
    frame = tokenizer.frame
    ids = [frame.around(tokens[: max_length - frame.num_single]) for tokens in encoded]
    lengths = [len(tokens) + frame.num_single for tokens in encoded]
    return Sequences(ids, sum(lengths), sum(max(0, length - max_length) for length in lengths))


@torch.no_grad()
def outputs_of(
    model: TextModel,
    rows: Sequence[Row],
    *,
    autocast: AbstractContextManager | None = None,
    spread: Spread = in_this_process,
) -> list[np.ndarray]:
    """The outputs of the head for every row, in input order, in float32: of the row, or of its wanted tokens."""
    was_training = model.training
    model.eval()
    head = model.head
    assert not isinstance(head, LanguageModelHead)
    order = sorted(range(len(rows)), key=lambda index: len(rows[index].ids))
    result: list[np.ndarray] = [NOTHING] * len(rows)

    def scored(chosen: list[int]) -> list[np.ndarray]:
        batch = batch_of([rows[index] for index in chosen], is_per_token=head.is_per_token).to(model.device)
        with autocast or nullcontext():
            scores = model(batch)
        scores = scores.float().cpu()
        if not scores.isfinite().all():
            raise RunError(
                "The model's scores are not finite: its weights are damaged. Restore the bundle from a copy."
            )
        values = scores.numpy()
        return np.split(values, np.cumsum(batch.lengths)[:-1]) if head.is_per_token else list(values)

    batches = token_batches(order, [row.ids for row in rows], TOKENS_PER_BATCH[model.device.type])
    for chosen, parts in zip(batches, spread(scored, batches), strict=True):
        for index, part in zip(chosen, parts, strict=True):
            wanted = rows[index].wanted
            result[index] = part if wanted is None else part[wanted]
    model.train(was_training)
    return result


def token_batches(order: Sequence[int], sequences: Sequence[np.ndarray], budget: int) -> list[list[int]]:
    """Indices of sequences in the given order, in batches of at most `budget` tokens; a longer one is a batch alone."""
    batches: list[list[int]] = []
    used = budget + 1
    for index in order:
        if used + len(sequences[index]) > budget:
            batches.append([])
            used = 0
        batches[-1].append(index)
        used += len(sequences[index])
    return batches
