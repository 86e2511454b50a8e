"""Settings of tokenizers. Free of torch."""

from typing import Annotated, Literal

from pydantic import Field

from headswap.core.errors import SettingError
from headswap.core.settings import Settings

TokenizerKind = Literal["bpe", "unigram", "wordpiece", "word"]


class TokenizerSettings(Settings):
    """Which tokenizer is used, or how one is trained."""

    tokenizer: str | None = None
    """An existing tokenizer: a tokenizer.json, a bundle or run folder, an installed base (box:NAME), a token store, or
    the lab's dict.txt. Without it one is trained on the corpus."""
    kind: TokenizerKind = "bpe"
    """Kind of tokenizer to train: byte-level BPE, unigram, WordPiece, or whole words."""
    vocab_size: Annotated[int, Field(ge=64)] | None = None
    """Vocabulary size to train, special tokens included. By default it is fitted to the corpus."""
    lowercase: bool = False
    """Lower-case all text inside the tokenizer."""


def check_untrained(settings: TokenizerSettings, why: str) -> None:
    """Refuse settings of a tokenizer that will not be trained."""
    if changed := settings.not_default(["kind", "lowercase", "vocab_size"]):
        raise SettingError(f"{', '.join(changed)} cannot be set: {why}, so none is trained.")
