"""Texts as vectors: the hidden states of the base, pooled."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from headswap.batches.batch import flat_batch
from headswap.bundle.bundle import Bundle
from headswap.core.errors import InputError, SettingError
from headswap.inference.outputs import TOKENS_PER_BATCH, make_sequences, token_batches
from headswap.model.pooling import pool
from headswap.model.shape import Pooling


def are_vectors(file: Path) -> bool:
    """Whether a file is an array as `embed` writes it: two dimensions, float32."""
    try:
        found = np.load(file, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError):
        return False
    return isinstance(found, np.ndarray) and found.ndim == 2 and found.dtype == np.float32


@torch.no_grad()
def embed_texts(
    bundle: Bundle,
    texts: Sequence[str],
    *,
    pooling: Pooling = "mean",
    normalize: bool = False,
    max_length: int | None = None,
    warns_of_truncation: bool = True,
) -> np.ndarray:
    """One float32 vector per text, in input order; a vector does not depend on the other texts of its batch."""
    limit = bundle.max_length if max_length is None else max_length
    if not bundle.tokenizer.frame.num_single < limit <= bundle.max_length:
        raise SettingError(
            f"max_length is {limit}; it must be more than {bundle.tokenizer.frame.num_single} and at most "
            f"{bundle.max_length}, the context length of the base."
        )
    if blank := [number for number, text in enumerate(texts, 1) if not text.strip()]:
        raise InputError(f"Text {blank[0]} of {len(texts)} is blank, so there is nothing to embed.")
    model = bundle.model.eval()
    sequences = make_sequences(texts, bundle.tokenizer, max_length=limit)
    if warns_of_truncation:
        sequences.warn_of_truncation(limit)
    width = model.shape.base.hidden_size * len(pooling.split("+"))
    vectors = np.empty((len(texts), width), dtype=np.float32)
    order = sorted(range(len(texts)), key=lambda index: len(sequences.ids[index]))
    for chosen in token_batches(order, sequences.ids, TOKENS_PER_BATCH[model.device.type]):
        batch = flat_batch([sequences.ids[index] for index in chosen]).to(model.device)
        vectors[chosen] = pool(model.hidden(batch), batch.lengths_B, pooling).float().cpu().numpy()
    if normalize:
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return vectors
