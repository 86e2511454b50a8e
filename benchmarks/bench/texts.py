"""Generated text for the rows that read text: invented words with a Zipf distribution."""

from functools import cache

import numpy as np
import tokenizers
from tokenizers import models, pre_tokenizers, trainers

from headswap.tokens.tokenizer import SPECIAL_TOKENS, Tokenizer

SYLLABLES = [first + vowel + last for first in "bdfgklmnprstv" for vowel in "aeiou" for last in ("", "n", "r", "s")]


def words(count: int, seed: int) -> list[str]:
    """`count` words of an invented vocabulary of 30,000, drawn by Zipf's law, some with a full stop."""
    rng = np.random.default_rng(seed)
    ranks = np.minimum(rng.zipf(1.25, count), 30_000)
    stops = rng.random(count) < 0.07
    return [_word(int(rank)) + ("." if stop else "") for rank, stop in zip(ranks, stops, strict=True)]


def text_of(num_tokens: int, seed: int) -> str:
    """A text of about `num_tokens` tokens."""
    return " ".join(words(max(1, int(num_tokens / 1.35)), seed))


@cache
def _word(rank: int) -> str:
    rng = np.random.default_rng(rank)
    return "".join(rng.choice(SYLLABLES, size=1 + int(rank > 60) + int(rank > 2_000) + int(rank > 12_000)))


@cache
def tokenizer(vocab_size: int = 16_000) -> Tokenizer:
    """A byte-level BPE of such text, as `headswap tokenizer` trains it."""
    plain = tokenizers.Tokenizer(models.BPE())
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plain.decoder = tokenizers.decoders.ByteLevel()
    lines = [" ".join(words(2_000, seed)) for seed in range(150)]
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=list(SPECIAL_TOKENS), show_progress=False)
    plain.train_from_iterator(lines, trainer)
    return Tokenizer(plain.to_str(), origin="The bench's tokenizer")
