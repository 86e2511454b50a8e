"""Texts as vectors: what the base makes of them, pooled."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from headswap.bundle import Bundle
from headswap.core.errors import InputError
from headswap.model.config import Pooling
from headswap.model.heads import pool
from headswap.text.batch import flat_batch
from headswap.text.tokenizer import Tokenizer
from headswap.training.evaluate import TOKENS_PER_BATCH, token_batches

log = logging.getLogger("headswap")


@dataclass(frozen=True, slots=True)
class Sequences:
    """Texts as token ids, `<sos>` first, and how much of them was cut off."""

    ids: list[np.ndarray]
    num_tokens: int
    num_truncated: int

    @property
    def truncated_share(self) -> float:
        """Share of the tokens that did not fit."""
        return self.num_truncated / max(1, self.num_tokens)

    def warn_of_truncation(self, max_length: int) -> None:
        """Say how much was cut off, if anything was."""
        if self.num_truncated:
            share = 100 * self.truncated_share
            log.warning("%.1f %% of the tokens were cut off: the model reads at most %d a text.", share, max_length)


def make_sequences(texts: Sequence[str], tokenizer: Tokenizer, *, max_length: int) -> Sequences:
    """Encode texts and cut each at the limit."""
    encoded = tokenizer.encode_batch(list(texts))
    sos = np.array([tokenizer.sos_id])
    ids = [np.concatenate((sos, tokens[: max_length - 1])) for tokens in encoded]
    num_truncated = sum(max(0, len(tokens) + 1 - max_length) for tokens in encoded)
    return Sequences(ids, sum(len(tokens) + 1 for tokens in encoded), num_truncated)


@torch.no_grad()
def embed_texts(bundle: Bundle, texts: Sequence[str], *, pooling: Pooling = "mean") -> np.ndarray:
    """One row of float32 a text, in input order; a text's vector does not depend on its neighbours."""
    if blank := [number for number, text in enumerate(texts, 1) if not text.strip()]:
        raise InputError(f"Text {blank[0]} of {len(texts)} is blank, so there is nothing to embed.")
    model = bundle.model.eval()
    sequences = make_sequences(texts, bundle.tokenizer, max_length=bundle.max_length)
    sequences.warn_of_truncation(bundle.max_length)
    width = model.shape.base.hidden_size * len(pooling.split("+"))
    vectors = np.empty((len(texts), width), dtype=np.float32)
    order = sorted(range(len(texts)), key=lambda index: len(sequences.ids[index]))
    for chosen in token_batches(order, sequences.ids, TOKENS_PER_BATCH[model.device.type]):
        batch = flat_batch([sequences.ids[index] for index in chosen]).to(model.device)
        vectors[chosen] = pool(model.hidden(batch), batch.lengths, pooling).float().cpu().numpy()
    return vectors
