"""The shapes that are compared, the same for headswap and the peers, and their work."""

import json
from pathlib import Path

import numpy as np

from headswap.model.shape import PRESETS, BaseShape
from headswap.model.text_model import ModelShape

LENGTHS: list[int] = json.loads((Path(__file__).parent / "imdb_lengths.json").read_text())
"""Tokens (BPE of 16,000, <sos> included) of 1,000 IMDb reviews drawn at random; numbers, no text."""
FIRST_WORD = 6  # ids below are special tokens
LIMIT = 512


def lab_shape(vocab_size: int, **changes: object) -> BaseShape:
    """The lab's base: 4 layers of 200, 2 heads, feed-forward 200."""
    return BaseShape.model_validate({**PRESETS["lab"], "vocab_size": vocab_size, **changes})


def gpt2_small(vocab_size: int = 50_304) -> BaseShape:
    """GPT-2 small, without dropout."""
    return BaseShape.model_validate({**PRESETS["gpt2-small"], "vocab_size": vocab_size, "dropout": 0.0})


def model_shape(base: BaseShape, *, head: str = "lm", direction: str = "causal") -> ModelShape:
    """A headswap model; a classifier has two labels."""
    return ModelShape(base=base, head=head, direction=direction, num_labels=None if head == "lm" else 2)


def ragged_lengths(count: int) -> list[int]:
    """Lengths of reviews as a model with a limit of 512 reads them."""
    return [min(length, LIMIT) for length in LENGTHS[:count]]


def random_ids(lengths: list[int], vocab_size: int, seed: int = 0) -> list[np.ndarray]:
    """Sequences of tokens with a Zipf-like distribution."""
    rng = np.random.default_rng(seed)
    share = 1.0 / np.arange(2, vocab_size - FIRST_WORD + 2)
    edges = np.cumsum(share / share.sum())
    drawn = np.searchsorted(edges, rng.random(sum(lengths))).clip(0, vocab_size - FIRST_WORD - 1) + FIRST_WORD
    return np.split(drawn.astype(np.int64), np.cumsum(lengths)[:-1])
