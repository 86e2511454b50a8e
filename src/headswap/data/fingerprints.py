"""Fingerprints of texts, computed for many texts at once: what the overlap check compares instead of the texts.

A text has a digest of its normalised form, the hashes of its words, the set of its word trigrams as 32-bit hashes, and
the hashes of 16 bands of a MinHash. Two texts share a band with a probability that grows with the Jaccard similarity of
their trigrams. The permutations and the final mixing of the MinHash are those of datasketch 2 (scheme affine32, seed
1).
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from zlib import crc32

import numpy as np

WORDS_PER_NGRAM = 3
# Two texts of similarity .8 share no band in 1 of 5,000 cases; two of similarity .3 share one in 1 of 8 cases.
NUM_BANDS, ROWS_PER_BAND = 16, 4
EXAMPLE_LENGTH = 200
BLOCK_TEXTS, BLOCK_CHARACTERS = 4_096, 4_000_000
"""Texts are fingerprinted in blocks of at most this size (a longer text is a block alone), which bounds the memory."""
LONG_TEXT = 1_000_000  # characters; the words of a longer text are not held as a list
# In scripts without spaces between words every character counts as a word.
_WORD = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]|[^\W_]+")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_MIXERS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], dtype=np.uint64)
_RANDOM = np.random.RandomState(1)
_FACTORS = _RANDOM.randint(0, 1 << 31, NUM_BANDS * ROWS_PER_BAND, dtype=np.uint32) * np.uint32(2) + np.uint32(1)
_SUMMANDS = _RANDOM.randint(0, 1 << 32, NUM_BANDS * ROWS_PER_BAND, dtype=np.uint32)


@dataclass(frozen=True, slots=True)
class Fingerprints:
    """The fingerprints of some texts."""

    digests: np.ndarray
    """Two uint64 per text; equal for texts that differ only in case, `<br />` tags and white space."""
    bands: np.ndarray
    """`NUM_BANDS` uint32 per text."""
    trigrams: np.ndarray
    """The trigrams of all texts, sorted and unique within each text, as uint32."""
    sizes: np.ndarray
    """Number of trigrams of each text, at least 1."""
    beginnings: Sequence[str]
    """The first characters of each text, for examples."""
    words: np.ndarray
    """The hashes of the words of all texts in their order, as uint32."""
    num_words: np.ndarray
    """Number of words of each text, at least 1."""

    def __len__(self) -> int:
        return len(self.sizes)


def fingerprints(texts: Iterable[str]) -> Iterator[Fingerprints]:
    """The fingerprints of all texts, block by block."""
    for block in _blocks(texts):
        plain = [normalised(text) for text in block]
        words, num_words = words_of(plain)
        trigrams, sizes = trigrams_of(words, num_words)
        beginnings = [beginning(text) for text in block]
        bands = _bands(trigrams, sizes)
        yield Fingerprints(digests_of(plain), bands, trigrams, sizes, beginnings, words, num_words)


def normalised(text: str) -> str:
    """The text in lower case and NFC, without `<br />` tags, with single spaces."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    return " ".join(_BREAK.sub(" ", text).lower().split())


def digests_of(plain: Iterable[str]) -> np.ndarray:
    """The 16-byte digest of each text as two uint64."""
    digests = bytearray()
    for text in plain:
        digests += blake2b(text.encode(), digest_size=16).digest()
    return np.frombuffer(digests, dtype="<u8").reshape(-1, 2)


def first_of_equal(*columns: np.ndarray) -> np.ndarray:
    """The first row of each group of rows that are equal in all columns, in the order of the columns."""
    order = np.lexsort(columns[::-1])  # stable: of equal rows the first comes first
    is_new = np.zeros(len(order), dtype=bool)
    is_new[:1] = True
    for column in columns:
        is_new[1:] |= column[order[1:]] != column[order[:-1]]
    return order[is_new]


def sorted_unique(values: np.ndarray) -> np.ndarray:
    """The different values in ascending order; `np.unique` hashes integers, which takes three times as long here."""
    values = np.sort(values)
    return values[np.append(True, values[1:] != values[:-1])[: len(values)]]


def words_of(plain: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """The hashes of the words of all texts, end to end, and how many each text has; a text without words has signs."""
    words = [_word_hashes(text) for text in plain]
    return np.concatenate([np.zeros(0, np.uint32), *words]), np.array([len(hashes) for hashes in words], dtype=np.int64)


def trigrams_of(words: np.ndarray, num_words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Hashes of the word trigrams of each text, sorted and unique within it, and how many each text has.

    A shorter text is one n-gram.
    """
    flat = words.astype(np.uint64)
    text_of, last = np.repeat(np.arange(len(num_words)), num_words), np.repeat(np.cumsum(num_words), num_words) - 1
    widths = np.minimum(num_words, WORDS_PER_NGRAM)[text_of]
    places = np.arange(len(flat))
    mixed = np.zeros(len(flat), dtype=np.uint64)
    for place in range(WORDS_PER_NGRAM):
        shifted = np.zeros_like(flat)
        shifted[: max(0, len(flat) - place)] = flat[place:]
        following = (mixed ^ shifted ^ (mixed >> np.uint64(29))) * _MIXERS[place]
        mixed = np.where(place < widths, following, mixed)
    is_start = places + widths - 1 <= last
    keys = sorted_unique((text_of[is_start].astype(np.uint64) << np.uint64(32)) | (mixed[is_start] >> np.uint64(32)))
    sizes = np.bincount((keys >> np.uint64(32)).astype(np.int64), minlength=len(num_words))
    return keys.astype(np.uint32), sizes


def _word_hashes(plain: str) -> np.ndarray:
    if len(plain) > LONG_TEXT:
        found = np.fromiter((crc32(word.group().encode()) for word in _WORD.finditer(plain)), dtype=np.uint32)
        if len(found):
            return found
    words = _WORD.findall(plain) or plain.split() or [""]
    return np.fromiter(map(crc32, map(str.encode, words)), dtype=np.uint32, count=len(words))


def _bands(trigrams: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The MinHash of each text, with the values of each band mixed into one."""
    starts = np.cumsum(sizes) - sizes
    hashes = trigrams ^ (trigrams >> np.uint32(16))
    hashes = hashes * np.uint32(0x85EBCA6B)
    hashes = hashes ^ (hashes >> np.uint32(13))
    hashes = hashes * np.uint32(0xC2B2AE35)
    hashes = hashes ^ (hashes >> np.uint32(16))
    bands = np.zeros((len(sizes), NUM_BANDS), dtype=np.uint64)
    for number, (factor, summand) in enumerate(zip(_FACTORS, _SUMMANDS, strict=True)):
        smallest = np.minimum.reduceat(hashes * factor + summand, starts)
        band = bands[:, number // ROWS_PER_BAND]
        band[:] = (band ^ smallest ^ (band >> np.uint64(29))) * _MIXERS[0]
    return (bands >> np.uint64(32)).astype(np.uint32)


def beginning(text: str) -> str:
    shown = " ".join(_BREAK.sub(" ", text[: 2 * EXAMPLE_LENGTH]).split())
    return shown if len(shown) <= EXAMPLE_LENGTH else f"{shown[:EXAMPLE_LENGTH].rstrip()} ..."


def _blocks(texts: Iterable[str]) -> Iterator[list[str]]:
    block: list[str] = []
    num_characters = 0
    for text in texts:
        if block and (len(block) == BLOCK_TEXTS or num_characters + len(text) > BLOCK_CHARACTERS):
            yield block
            block, num_characters = [], 0
        block.append(text)
        num_characters += len(text)
    if block:
        yield block
