"""Warnings of pre-training: problems of the corpus, and a held-out loss that stays at the unigram entropy."""

import hashlib
import logging
from collections.abc import Iterator

import numpy as np

from headswap.core.errors import counted
from headswap.data.checks import Issue
from headswap.data.doctor import FEW_TOKENS_PER_PARAMETER, LARGE_UNKNOWN
from headswap.tokens.store import TokenStore, num_tokens_equal
from headswap.tokens.tokenizer import Tokenizer

log = logging.getLogger("headswap")
MOST_DOCUMENTS = 200_000
"""Duplicates are searched in this many documents, which takes about a second."""
MANY_REPEATED = 0.1
NATS = 0.15
"""A held-out loss above (unigram entropy - NATS) is a plateau: the model has learnt little but token frequencies."""
FROM_SHARE, FROM_STEP = 0.3, 20
"""No warning before this fraction of the steps, nor before this step."""


def corpus_issues(store: TokenStore, tokenizer: Tokenizer, *, num_parameters: int) -> Iterator[Issue]:
    """Duplicates, unknown tokens and the size of a token store."""
    if repeated := _num_repeated(store):
        looked_at = min(store.num_documents, MOST_DOCUMENTS)
        yield Issue(
            "warning" if repeated >= MANY_REPEATED * looked_at else "note", "duplicates", "corpus",
            f"{repeated:,} of {counted(looked_at, 'document')} repeat an earlier one, token for token. "
            "The model may memorise repeated text.",
        )  # fmt: skip
    unknown = num_tokens_equal(store, tokenizer.unk_id)
    if unknown >= LARGE_UNKNOWN * store.num_tokens:
        yield Issue(
            "warning", "unknown tokens", "corpus",
            f"{unknown / store.num_tokens:.1%} of the tokens are unknown to the tokenizer. Train one on this corpus.",
        )  # fmt: skip
    if store.num_tokens < FEW_TOKENS_PER_PARAMETER * num_parameters:
        yield Issue(
            "note", "corpus size", "corpus",
            f"{store.num_tokens:,} tokens for {num_parameters:,} parameters ({store.num_tokens / num_parameters:.2g} "
            "per parameter; about 20 are recommended). A smaller base may be as good.",
        )  # fmt: skip


def _num_repeated(store: TokenStore) -> int:
    offsets = np.asarray(store.offsets[: MOST_DOCUMENTS + 1], dtype=np.int64)
    ids = store.ids[: int(offsets[-1])].tobytes()
    size = store.ids.itemsize
    digests = {
        hashlib.blake2b(ids[start * size : end * size], digest_size=16).digest()
        for start, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
    }
    return len(offsets) - 1 - len(digests)


class PlateauWarning:
    """Warns once if the held-out loss stays at the unigram entropy, and states likely causes."""

    def __init__(self, entropy: float, *, is_masked: bool) -> None:
        self.entropy, self.is_masked = entropy, is_masked
        self.was_given = False

    def check(self, loss: float, step: int, total_steps: int, learning_rate: float | None) -> None:
        """Log the warning if the loss is on the plateau and the run is no longer in its early steps."""
        is_early = step < max(FROM_STEP, FROM_SHARE * total_steps)
        if self.was_given or is_early or loss < self.entropy - NATS:
            return
        self.was_given = True
        place = "above" if loss > self.entropy + NATS else "at"
        masked = " Masked objectives need more tokens: 2 million were too few in our tests." if self.is_masked else ""
        log.warning(
            "The held-out loss %.3f at step %d is still %s the unigram entropy %.3f: the model has learnt little more "
            "than token frequencies. Likely causes: too few tokens, a learning rate that is too high or too low (%s), "
            "or a corpus with many duplicates.%s", loss, step, place, self.entropy, learning_rate, masked,
        )  # fmt: skip
