"""Cheap checks of a tokenised corpus, made before every pre-training: one line each. The doctor looks closer."""

import hashlib
from collections.abc import Iterator

import numpy as np
from torch import nn

from headswap.core.errors import counted
from headswap.text.checks import Finding
from headswap.text.doctor import FEW_TOKENS_A_PARAMETER, LARGE_UNKNOWN
from headswap.text.store import TokenStore
from headswap.text.tokenizer import Tokenizer

MOST_DOCUMENTS = 200_000
"""Documents in which repetitions are looked for: a second of work."""
MANY_REPEATED = 0.1
PIECE = 1 << 24


def num_parameters(model: nn.Module) -> int:
    """How many numbers a model learns."""
    return sum(tensor.numel() for tensor in model.parameters())


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
    if store.num_tokens < FEW_TOKENS_A_PARAMETER * num_parameters:
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
