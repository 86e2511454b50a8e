"""Warnings of pre-training: what the corpus shows before the first step, and a loss that stays on a plateau."""

import hashlib
import logging
from collections.abc import Iterator

import numpy as np

from headswap.core.errors import counted
from headswap.data.checks import Finding
from headswap.data.doctor import FEW_TOKENS_PER_PARAMETER, LARGE_UNKNOWN
from headswap.tokens.store import TokenStore
from headswap.tokens.tokenizer import Tokenizer

MOST_DOCUMENTS = 200_000
"""Documents in which repetitions are looked for: a second of work."""
MANY_REPEATED = 0.1
PIECE = 1 << 24


def corpus_findings(store: TokenStore, tokenizer: Tokenizer, *, num_parameters: int) -> Iterator[Finding]:
    """What a token store shows in one pass over its ids."""
    if repeated := _num_repeated(store):
        looked_at = min(store.num_documents, MOST_DOCUMENTS)
        yield Finding(
            "warning" if repeated >= MANY_REPEATED * looked_at else "note", "duplicates", "corpus",
            f"{repeated:,} of {counted(looked_at, 'document')} repeat an earlier one, token for token. "
            "Repeated text is learnt by heart.",
        )  # fmt: skip
    unknown = sum(
        int((store.ids[start : start + PIECE] == tokenizer.unk_id).sum()) for start in range(0, store.num_tokens, PIECE)
    )
    if unknown >= LARGE_UNKNOWN * store.num_tokens:
        yield Finding(
            "warning", "unknown tokens", "corpus",
            f"{unknown / store.num_tokens:.1%} of the tokens are unknown to the tokenizer. Train one on this corpus.",
        )  # fmt: skip
    if store.num_tokens < FEW_TOKENS_PER_PARAMETER * num_parameters:
        yield Finding(
            "note", "corpus size", "corpus",
            f"{store.num_tokens:,} tokens for {num_parameters:,} parameters ({store.num_tokens / num_parameters:.2g} "
            "each; about 20 are called enough): a smaller base may do as well.",
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


log = logging.getLogger("headswap")
NATS = 0.15
"""A held-out loss this close to the unigram entropy, or above it, has learnt little else."""
FROM_SHARE, FROM_STEP = 0.3, 20
"""Nothing is said before this share of the steps, nor before so many."""


class PlateauAlarm:
    """Looks at every held-out loss and says once that it stands at the unigram entropy, and why it may."""

    def __init__(self, entropy: float, *, is_masked: bool) -> None:
        self.entropy, self.is_masked = entropy, is_masked
        self.has_rung = False

    def look(self, loss: float, step: int, total_steps: int, learning_rate: float | None) -> None:
        """Say so if a run that should have learnt something has not."""
        is_early = step < max(FROM_STEP, FROM_SHARE * total_steps)
        if self.has_rung or is_early or loss < self.entropy - NATS:
            return
        self.has_rung = True
        place = "above" if loss > self.entropy + NATS else "at"
        masked = " Masked objectives stay there longest: 2 million tokens were too few." if self.is_masked else ""
        log.warning(
            "The held-out loss %.3f at step %d is still %s the unigram entropy %.3f: the model knows little more "
            "than how often each token occurs. Likely causes: too few tokens, a learning rate that is too high or too "
            "low (%s), a corpus that repeats itself.%s", loss, step, place, self.entropy, learning_rate, masked,
        )  # fmt: skip
