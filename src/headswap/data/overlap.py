"""The overlap check: which texts of one set also occur in another set, exactly or nearly.

Two texts are equal if they differ only in case, `<br />` tags and white space. They are near duplicates if their sets
of word trigrams have a Jaccard similarity of at least `NEAR`. Of the `to` sets an index of about 250 bytes per text is
held in memory (text_index.py); the other sets are streamed. Fingerprints of texts are computed in fingerprints.py.
Callers decide what to do about an overlap.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headswap.core.errors import SettingError, listed
from headswap.data.fingerprints import Fingerprints, fingerprints, normalised, trigrams_of
from headswap.data.text_index import NO_ROW, TextIndex

NEAR = 0.8
MOST_EXAMPLES = 3


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
    indexes = {name: TextIndex(near) for name in sets if any(to == name for _, to in pairs)}
    for name, index in indexes.items():
        for block in fingerprints(sets[name]):
            index.add(block)
        index.seal()
    for name, texts in sets.items():
        wanted = [found[pair] for pair in pairs if pair[0] == name]
        blocks = indexes[name].blocks() if name in indexes else fingerprints(texts)
        first_row = 0
        for block in blocks if wanted else ():
            for overlap in wanted:
                _record(overlap, block, first_row, indexes[overlap.to_set])
            first_row += len(block)
    return [found[pair] for pair in pairs]


def similarity(one: str, other: str) -> float:
    """The Jaccard similarity of the word trigrams of two texts."""
    first, second = (trigrams_of([normalised(text)])[0] for text in (one, other))
    shared = len(np.intersect1d(first, second, assume_unique=True))
    return shared / (len(first) + len(second) - shared)


def _record(overlap: Overlap, block: Fingerprints, first_row: int, index: TextIndex) -> None:
    """Add the rows of a block that the index contains."""
    overlap.num_rows += len(block)
    is_inside = overlap.from_set == overlap.to_set
    to_rows, scores = index.find(block, first_row=first_row if is_inside else None)
    for number in np.flatnonzero(to_rows != NO_ROW).tolist():
        to_row, score = int(to_rows[number]), float(scores[number])
        rows = overlap.exact if score >= 1.0 else overlap.near
        rows.append(first_row + number)
        if len(rows) <= MOST_EXAMPLES:
            texts = block.beginnings[number], index.beginning(to_row)
            overlap.examples.append(OverlapMatch(first_row + number, to_row, score, *texts))
