"""Small tokenizers of every kind, trained on the grammar of tiny.py."""

from headswap.data.records import Document
from headswap.tokens.config import TokenizerSettings
from headswap.tokens.tokenizer import Tokenizer
from headswap.tokens.train_tokenizer import train_tokenizer
from tiny import sentences

KINDS = ("bpe", "unigram", "wordpiece", "word")
EXTRA = ["He said: <mask> and <sos>!", "Don't  stop\tthe <sep> music... café, naïve ÉTÉ", "x < y > z <unk> ## # ##a"]
"""Texts with names of special tokens, accents, double spaces and marks of tokenizers."""


def trained(kind: str = "bpe", texts: list[str] | None = None, **values: object) -> Tokenizer:
    """A tokenizer of at most 400 tokens, trained on some texts; by default on the small grammar and `EXTRA`."""
    texts = texts if texts is not None else [text for text, _ in sentences(300)] + EXTRA * 3
    documents = [Document(text, "corpus.txt", line) for line, text in enumerate(texts, start=1)]
    settings = TokenizerSettings.model_validate({"kind": kind, "vocab_size": 400} | values)
    return train_tokenizer(documents, settings)
