"""The overlap check: which texts of one set also occur in another set, exactly or nearly.

Two texts are equal if they differ only in case, `<br />` tags and white space. They are near duplicates if their sets
of word trigrams have a Jaccard similarity of at least `NEAR`. MinHash and LSH (datasketch) find candidates, and each
candidate is verified by its exact similarity, so there are no false positives. Only the `to` sets are held in memory,
as hashes; the other sets are streamed. Callers decide what to do about an overlap.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any
from zlib import crc32

import numpy as np

from headswap.core.errors import SettingError, listed

NEAR = 0.8
WORDS_PER_NGRAM = 3
# Two texts of similarity .8 share no band in 1 of 5,000 cases; two of similarity .3 share one in 1 of 8 cases.
NUM_BANDS, ROWS_PER_BAND = 16, 4
MOST_EXAMPLES = 3
EXAMPLE_LENGTH = 200
# In scripts without spaces between words every character counts as a word.
_WORD = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]|[^\W_]+")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_MIXERS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], dtype=np.uint64)


@dataclass(frozen=True)
class OverlapMatch:
    """A text of one set and the text of the other set that it repeats."""

    from_row: int
    to_row: int
    similarity: float
    from_text: str
    to_text: str

    @property
    def is_exact(self) -> bool:
        """Whether the texts differ only in case, `<br />` tags and white space."""
        return self.similarity >= 1.0


@dataclass
class Overlap:
    """The rows of one set whose text is also in another set; within one set, the rows that repeat an earlier row."""

    from_set: str
    to_set: str
    num_rows: int = 0
    exact: list[int] = field(default_factory=list)
    """Rows of `from_set`, counted from 0, whose text is in `to_set`."""
    near: list[int] = field(default_factory=list)
    """Rows that are near duplicates of a text of `to_set` and not in `exact`."""
    examples: list[OverlapMatch] = field(default_factory=list)

    @property
    def rows(self) -> list[int]:
        """All rows found, exact and near."""
        return sorted([*self.exact, *self.near])

    def as_json(self, *, with_texts: bool = True) -> dict[str, Any]:
        """`{"from", "to", "exact_rows", "near_rows", ...}`."""
        examples = [
            {
                "kind": "exact" if found.is_exact else "near",
                "from_row": found.from_row,
                "to_row": found.to_row,
                "similarity": round(found.similarity, 3),
            }
            | ({"from_text": found.from_text, "to_text": found.to_text} if with_texts else {})
            for found in self.examples
        ]
        return {
            "from": self.from_set,
            "to": self.to_set,
            "exact_rows": len(self.exact),
            "near_rows": len(self.near),
            "rows": self.num_rows,
            "examples": examples,
        }


def find_overlap(
    sets: Mapping[str, Iterable[str]], *, pairs: Sequence[tuple[str, str]] | None = None, near: float = NEAR
) -> list[Overlap]:
    """One `Overlap` per (from, to) in `pairs`; default: all ordered pairs, including each set with itself.

    Each set is read once. The hashes of a `to` set are kept in memory; a set that is only a `from` is streamed.
    """
    pairs = [(one, other) for one in sets for other in sets] if pairs is None else list(pairs)
    if unknown := sorted({name for pair in pairs for name in pair} - set(sets)):
        raise SettingError(f"{listed(unknown)} is not one of the sets ({listed(sets)}).")
    found = {pair: Overlap(*pair) for pair in pairs}
    fingerprinter = _Fingerprinter()
    indexes = {name: _Index(near) for name in sets if any(to == name for _, to in pairs)}
    kept: dict[str, list[_Fingerprint]] = {}
    for name, index in indexes.items():
        own = found.get((name, name))
        kept[name] = []
        for row, text in enumerate(sets[name]):
            fingerprint = fingerprinter.of(text)
            if own is not None:
                _record(own, row, fingerprint, index)
            index.add(row, fingerprint)
            kept[name].append(fingerprint)
    for name, texts in sets.items():
        others = [(found[name, to], indexes[to]) for one, to in pairs if one == name != to]
        streamed: Iterable[_Fingerprint] = map(fingerprinter.of, texts) if others else ()
        for row, fingerprint in enumerate(kept.get(name, streamed)):
            for overlap, index in others:
                _record(overlap, row, fingerprint, index)
    return [found[pair] for pair in pairs]


def normalised(text: str) -> str:
    """The text in lower case and NFC, without `<br />` tags, with single spaces."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    return " ".join(_BREAK.sub(" ", text).lower().split())


def similarity(one: str, other: str) -> float:
    """The Jaccard similarity of the word trigrams of two texts."""
    return _jaccard(_trigrams(normalised(one)), _trigrams(normalised(other)))


@dataclass(frozen=True, slots=True)
class _Fingerprint:
    """What is kept of a text: a digest, hashes of its word trigrams, its MinHash and its beginning."""

    digest: bytes
    trigrams: np.ndarray
    minhash: Any
    beginning: str


class _Fingerprinter:
    def __init__(self) -> None:
        from datasketch import MinHash  # imports scipy, which is slow

        self.empty = MinHash(num_perm=NUM_BANDS * ROWS_PER_BAND, seed=1, hashfunc=int, scheme="affine32")

    def of(self, text: str) -> _Fingerprint:
        """The fingerprint of a text."""
        plain = normalised(text)
        trigrams = _trigrams(plain)
        minhash = self.empty.copy()
        minhash.update_batch(trigrams.tolist())
        shown = " ".join(_BREAK.sub(" ", text[: 2 * EXAMPLE_LENGTH]).split())
        beginning = shown if len(shown) <= EXAMPLE_LENGTH else f"{shown[:EXAMPLE_LENGTH].rstrip()} ..."
        return _Fingerprint(blake2b(plain.encode(), digest_size=16).digest(), trigrams, minhash, beginning)


class _Index:
    """The texts of one set, indexed by content."""

    def __init__(self, near: float) -> None:
        from datasketch import MinHashLSH

        self.near = near
        self.by_digest: dict[bytes, int] = {}
        self.fingerprints: dict[int, _Fingerprint] = {}
        self.bands = MinHashLSH(params=(NUM_BANDS, ROWS_PER_BAND), num_perm=NUM_BANDS * ROWS_PER_BAND)

    def add(self, row: int, fingerprint: _Fingerprint) -> None:
        """Add a text; of equal texts only the first is kept."""
        if self.by_digest.setdefault(fingerprint.digest, row) == row:
            self.fingerprints[row] = fingerprint
            self.bands.insert(row, fingerprint.minhash, check_duplication=False)

    def find(self, fingerprint: _Fingerprint) -> tuple[int, float] | None:
        """The row with an equal or the most similar text, and its similarity; None if no text is near."""
        if fingerprint.digest in self.by_digest:
            return self.by_digest[fingerprint.digest], 1.0
        best: tuple[float, int] | None = None
        for row in self.bands.query(fingerprint.minhash):
            trigrams = self.fingerprints[row].trigrams
            if min(len(trigrams), len(fingerprint.trigrams)) < self.near * max(
                len(trigrams), len(fingerprint.trigrams)
            ):
                continue
            score = min(
                _jaccard(trigrams, fingerprint.trigrams), 0.9999
            )  # 1.0 is for equal texts; these only have the same trigrams
            if score >= self.near and (best is None or (score, -row) > (best[0], -best[1])):
                best = score, row
        return (best[1], best[0]) if best else None


def _record(overlap: Overlap, row: int, fingerprint: _Fingerprint, index: _Index) -> None:
    overlap.num_rows += 1
    hit = index.find(fingerprint)
    if hit is None:
        return
    to_row, score = hit
    rows = overlap.exact if score >= 1.0 else overlap.near
    rows.append(row)
    if len(rows) <= MOST_EXAMPLES:
        overlap.examples.append(
            OverlapMatch(row, to_row, score, fingerprint.beginning, index.fingerprints[to_row].beginning)
        )


def _trigrams(plain: str) -> np.ndarray:
    """Sorted hashes of all word trigrams. A shorter text is one n-gram; one without words uses its signs."""
    words = _WORD.findall(plain) or plain.split() or [""]
    hashes = np.fromiter((crc32(word.encode()) for word in words), dtype=np.uint64, count=len(words))
    width = min(WORDS_PER_NGRAM, len(hashes))
    mixed = np.zeros(len(hashes) - width + 1, dtype=np.uint64)
    for place in range(width):
        mixed = (mixed ^ hashes[place : place + len(mixed)] ^ (mixed >> np.uint64(29))) * _MIXERS[place]
    return np.unique((mixed >> np.uint64(32)).astype(np.uint32))


def _jaccard(one: np.ndarray, other: np.ndarray) -> float:
    shared = len(np.intersect1d(one, other, assume_unique=True))
    return shared / (len(one) + len(other) - shared)
