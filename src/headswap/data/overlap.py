"""The contamination guard: which texts of one set also stand in another, word for word or nearly so.

Texts are equal when they are the same but for case, `<br />` tags and white space. They are near when the sets of their
runs of three words have a Jaccard similarity of at least `NEAR`; MinHash and LSH (datasketch) find the candidates, and
every one is verified on the sets themselves, so that nothing is called near that is not. Only the sets that are looked
*in* are held in memory, as hashes; the others stream. What is done about a finding is left to the callers.
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
RUN_OF_WORDS = 3
NUM_BANDS, ROWS_A_BAND = 16, 4  # two texts of similarity .8 miss all bands once in 5,000 times, of .3 meet in one in 8
MOST_EXAMPLES = 3
EXAMPLE_LENGTH = 200
# Scripts without spaces between words: every sign of theirs counts as one.
_WORD = re.compile(r"[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff]|[^\W_]+")
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_MIXERS = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], dtype=np.uint64)


@dataclass(frozen=True)
class OverlapMatch:
    """One text of a set and the text of the other set that it repeats."""

    from_row: int
    to_row: int
    similarity: float
    from_text: str
    to_text: str

    @property
    def is_exact(self) -> bool:
        """Whether the two are equal but for case, breaks and white space."""
        return self.similarity >= 1.0


@dataclass
class Overlap:
    """The rows of one set whose text stands in another; of a set and itself, the rows that repeat an earlier one."""

    from_set: str
    to_set: str
    num_rows: int = 0
    exact: list[int] = field(default_factory=list)
    """Rows of `from_set`, counted from 0, whose text stands in `to_set`."""
    near: list[int] = field(default_factory=list)
    """Rows, none of them in `exact`, that are near to a text of `to_set`."""
    examples: list[OverlapMatch] = field(default_factory=list)

    @property
    def rows(self) -> list[int]:
        """All rows found: what is to be dropped from `from_set`."""
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
    """One `Overlap` for each (from, to) of `pairs`; by default for every ordered pair and every set with itself.

    A set that is only a `from` may be any iterable and is read once; one that is a `to` is read once, kept as hashes.
    """
    pairs = [(one, other) for one in sets for other in sets] if pairs is None else list(pairs)
    if unknown := sorted({name for pair in pairs for name in pair} - set(sets)):
        raise SettingError(f"{listed(unknown)} is not among the sets of texts ({listed(sets)}).")
    found = {pair: Overlap(*pair) for pair in pairs}
    maker = _PrintMaker()
    looked_in = {name: _Index(near) for name in sets if any(to == name for _, to in pairs)}
    kept: dict[str, list[_Print]] = {}
    for name, index in looked_in.items():
        own = found.get((name, name))
        kept[name] = []
        for row, text in enumerate(sets[name]):
            mark = maker.of(text)
            if own is not None:
                _note(own, row, mark, index)
            index.add(row, mark)
            kept[name].append(mark)
    for name, texts in sets.items():
        others = [(found[name, to], looked_in[to]) for one, to in pairs if one == name != to]
        marks: Iterable[_Print] = kept[name] if name in kept else map(maker.of, texts) if others else ()
        for row, mark in enumerate(marks):
            for overlap, index in others:
                _note(overlap, row, mark, index)
    return [found[pair] for pair in pairs]


def normalised(text: str) -> str:
    """The text without what does not make two texts different: case, `<br />`, white space, composed characters."""
    if not text.isascii():
        text = unicodedata.normalize("NFC", text)
    return " ".join(_BREAK.sub(" ", text).lower().split())


def similarity(one: str, other: str) -> float:
    """The Jaccard similarity of two texts' runs of words."""
    return _jaccard(_runs(normalised(one)), _runs(normalised(other)))


@dataclass(frozen=True, slots=True)
class _Print:
    """What is kept of a text: a digest, its runs of words as hashes, its MinHash and its beginning."""

    digest: bytes
    runs: np.ndarray
    minhash: Any
    beginning: str


class _PrintMaker:
    def __init__(self) -> None:
        from datasketch import MinHash  # brings scipy with it

        self.empty = MinHash(num_perm=NUM_BANDS * ROWS_A_BAND, seed=1, hashfunc=int, scheme="affine32")

    def of(self, text: str) -> _Print:
        """The print of a text."""
        plain = normalised(text)
        runs = _runs(plain)
        minhash = self.empty.copy()
        minhash.update_batch(runs.tolist())
        shown = " ".join(_BREAK.sub(" ", text[: 2 * EXAMPLE_LENGTH]).split())
        beginning = shown if len(shown) <= EXAMPLE_LENGTH else f"{shown[:EXAMPLE_LENGTH].rstrip()} ..."
        return _Print(blake2b(plain.encode(), digest_size=16).digest(), runs, minhash, beginning)


class _Index:
    """The texts of one set, found by their content."""

    def __init__(self, near: float) -> None:
        from datasketch import MinHashLSH

        self.near = near
        self.by_digest: dict[bytes, int] = {}
        self.prints: dict[int, _Print] = {}
        self.bands = MinHashLSH(params=(NUM_BANDS, ROWS_A_BAND), num_perm=NUM_BANDS * ROWS_A_BAND)

    def add(self, row: int, mark: _Print) -> None:
        """Take a text in; of equal ones the first is enough."""
        if self.by_digest.setdefault(mark.digest, row) == row:
            self.prints[row] = mark
            self.bands.insert(row, mark.minhash, check_duplication=False)

    def find(self, mark: _Print) -> tuple[int, float] | None:
        """The row that is equal or nearest to a text, with its similarity; None where none is near."""
        if mark.digest in self.by_digest:
            return self.by_digest[mark.digest], 1.0
        best: tuple[float, int] | None = None
        for row in self.bands.query(mark.minhash):
            runs = self.prints[row].runs
            if min(len(runs), len(mark.runs)) < self.near * max(len(runs), len(mark.runs)):
                continue
            alike = min(_jaccard(runs, mark.runs), 0.9999)  # the same runs of words, but not the same text
            if alike >= self.near and (best is None or (alike, -row) > (best[0], -best[1])):
                best = alike, row
        return (best[1], best[0]) if best else None


def _note(overlap: Overlap, row: int, mark: _Print, index: _Index) -> None:
    overlap.num_rows += 1
    hit = index.find(mark)
    if hit is None:
        return
    to_row, alike = hit
    rows = overlap.exact if alike >= 1.0 else overlap.near
    rows.append(row)
    if len(rows) <= MOST_EXAMPLES:
        overlap.examples.append(OverlapMatch(row, to_row, alike, mark.beginning, index.prints[to_row].beginning))


def _runs(plain: str) -> np.ndarray:
    """Sorted hashes of all runs of three words; a text of fewer words is one run, one without words is its signs."""
    words = _WORD.findall(plain) or plain.split() or [""]
    hashes = np.fromiter((crc32(word.encode()) for word in words), dtype=np.uint64, count=len(words))
    width = min(RUN_OF_WORDS, len(hashes))
    mixed = np.zeros(len(hashes) - width + 1, dtype=np.uint64)
    for place in range(width):
        mixed = (mixed ^ hashes[place : place + len(mixed)] ^ (mixed >> np.uint64(29))) * _MIXERS[place]
    return np.unique((mixed >> np.uint64(32)).astype(np.uint32))


def _jaccard(one: np.ndarray, other: np.ndarray) -> float:
    shared = len(np.intersect1d(one, other, assume_unique=True))
    return shared / (len(one) + len(other) - shared)
