"""Settings of tokenizers. Does not import torch."""

from typing import Annotated, Literal

from pydantic import Field

from headswap.core.errors import SettingError
from headswap.core.settings import Settings

LARGEST_VOCABULARY = 10_000_000  # the package tokenizers reserves memory for this many entries
TokenizerKind = Literal["bpe", "unigram", "wordpiece", "word"]


class TokenizerSettings(Settings):
    """An existing tokenizer, or how a new one is trained."""

    tokenizer: str | None = None
    """An existing tokenizer: a tokenizer.json, a bundle or run folder, an installed base (box:NAME), a token store, or
    a dict.txt (sentencepiece pieces, one per line). Default: that of the base; with --base scratch a new one is trained
    on the training texts."""
    kind: TokenizerKind = "bpe"
    """Kind of a new tokenizer: bpe (byte-level BPE), unigram, wordpiece, or word (whole words)."""
    vocab_size: Annotated[int, Field(ge=64, le=LARGEST_VOCABULARY)] | None = None
    """Vocabulary size of a new tokenizer, including special tokens. Default: 3 x the square root of the number of bytes
    of text, at least 512 and at most 32,768."""
    lowercase: bool = False
    """Whether a new tokenizer converts all text to lower case."""


def check_untrained(settings: TokenizerSettings, why: str) -> None:
    """Raise if settings of training are given although no tokenizer will be trained."""
    if changed := settings.not_default(["kind", "lowercase", "vocab_size"]):
        raise SettingError(f"{', '.join(changed)} cannot be set: {why}, so none is trained.")
