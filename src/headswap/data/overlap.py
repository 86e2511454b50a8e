"""The overlap check: which texts of one set also occur in another set, exactly, nearly, or as a part.

Two texts are equal if they differ only in case, `<br />` tags and white space. They are near duplicates if their sets
of word trigrams have a Jaccard similarity of at least `NEAR`, or if both have 8 to 28 words and they differ in one word
(short_texts.py). A text is contained if at least half of its words, or of those of a text of the other set, are in runs
of 13 words that both have; a smaller share is a shared passage (containment.py). Of the `to` sets an index of about 250
bytes per text is held in memory (text_index.py); the other sets are streamed. Fingerprints of texts are computed in
fingerprints.py. Callers decide what to do about an overlap.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from headswap.core.errors import SettingError, counted, listed
from headswap.data.containment import CONTAINED, ContainmentSearch, RunIndex
from headswap.data.fingerprints import Fingerprints, fingerprints, normalised, trigrams_of, words_of
from headswap.data.short_texts import differ_in_one_word
from headswap.data.text_index import HIGHEST_NEAR, NO_ROW, TextIndex
from headswap.data.word_runs import Windows

NEAR = 0.8
MOST_EXAMPLES = 3
Kind = Literal["exact", "near", "contained", "passage"]


@dataclass(frozen=True)
class OverlapMatch:
    """A text of one set and the text of the other set that it repeats."""

    kind: Kind
    from_row: int
    to_row: int
    similarity: float
    """1 for equal texts; for near ones the Jaccard similarity or the share of equal words; for others the share of
    containment."""
    from_text: str
    to_text: str


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
    contained: list[int] = field(default_factory=list)
    """Other rows that contain at least half of a text of `to_set`, or at least half of which such a text contains."""
    passages: list[int] = field(default_factory=list)
    """Other rows that share a run of 13 words with a text of `to_set`."""
    examples: list[OverlapMatch] = field(default_factory=list)

    @property
    def rows(self) -> list[int]:
        """All rows that repeat a text: exact, near and contained ones, without those that only share a passage."""
        return sorted([*self.exact, *self.near, *self.contained])

    @property
    def counts(self) -> dict[str, int]:
        """The number of rows of each kind, as in JSON."""
        return {
            "exact_rows": len(self.exact),
            "near_rows": len(self.near),
            "contained_rows": len(self.contained),
            "passage_rows": len(self.passages),
        }

    def as_json(self, *, with_texts: bool = True) -> dict[str, Any]:
        """`{"from", "to", "exact_rows", "near_rows", "contained_rows", "passage_rows", ...}`."""
        examples = [
            {
                "kind": found.kind,
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
            **self.counts,
            "rows": self.num_rows,
            "examples": examples,
        }


def find_overlap(
    sets: Mapping[str, Iterable[str]],
    *,
    pairs: Sequence[tuple[str, str]] | None = None,
    near: float = NEAR,
    containment: Collection[tuple[str, str]] | None = None,
) -> list[Overlap]:
    """One `Overlap` per (from, to) in `pairs`; default: all ordered pairs, including each set with itself.

    Each set is read once. The hashes of a `to` set are kept in memory; a set that is only a `from` is streamed.
    Contained texts and shared passages are searched in the pairs of `containment`; default: all pairs of two sets.
    """
    pairs = [(one, other) for one in sets for other in sets] if pairs is None else list(pairs)
    if unknown := sorted({name for pair in pairs for name in pair} - set(sets)):
        raise SettingError(f"{listed(unknown)} is not one of the sets ({listed(sets)}).")
    wanted = {pair for pair in pairs if pair[0] != pair[1] and (containment is None or pair in containment)}
    found = {pair: Overlap(*pair) for pair in pairs}
    indexes = {name: TextIndex(near) for name in sets if any(to == name for _, to in pairs)}
    run_indexes = {name: RunIndex() for name in indexes if any(to == name for _, to in wanted)}
    for name, index in indexes.items():
        for block in fingerprints(sets[name]):
            index.add(block)
            if name in run_indexes:
                run_indexes[name].add(Windows(block.words, block.num_words))
        index.seal()
        if name in run_indexes:
            run_indexes[name].seal()
    for name, texts in sets.items():
        overlaps = [found[pair] for pair in pairs if pair[0] == name]
        searches = {to: ContainmentSearch(run_indexes[to]) for one, to in pairs if one == name and (one, to) in wanted}
        blocks = indexes[name].blocks() if name in indexes else fingerprints(texts)
        for block in blocks if overlaps else ():
            windows = Windows(block.words, block.num_words) if searches else None
            for overlap in overlaps:
                is_found = _record(overlap, block, indexes[overlap.to_set])
                if windows is not None and overlap.to_set in searches:
                    searches[overlap.to_set].add(block, windows, ~is_found)
        for to, search in searches.items():
            _record_contained(found[name, to], search, indexes[to])
    return [found[pair] for pair in pairs]


def how_many(found: Overlap) -> str:
    """The rows of each kind: "1 exactly, 2 nearly"."""
    parts = f", {len(found.contained):,} as a part or quotation" if found.contained else ""
    return f"{len(found.exact):,} exactly, {len(found.near):,} nearly{parts}"


def occur(num: int, unit: str) -> str:
    """The verb after a number of rows that are in another set, too; of a question it is the context that is there."""
    if unit == "question":
        return f"{'has' if num == 1 else 'have'} a context that also occurs"
    return f"also {'occurs' if num == 1 else 'occur'}"


def overlap_sentence(found: Overlap, *, unit: str = "text") -> str:
    """How many texts of one set occur in the other; `unit` is what a row of the first set is called."""
    num = len(found.rows)
    return f"{counted(num, unit)} of {found.from_set} {occur(num, unit)} in {found.to_set} ({how_many(found)})."


def passages_sentence(found: Overlap, *, unit: str = "text") -> str:
    """How many texts share a passage with a text of the other set, which is too short a part to count as overlap."""
    num = len(found.passages)
    texts, verb = counted(num, unit), "shares" if num == 1 else "share"
    if unit == "question":
        verb = f"{'has' if num == 1 else 'have'} a context that shares"
    return (
        f"{texts} of {found.from_set} {verb} a passage with a text of {found.to_set}, which is less than half of both "
        "texts (not removed)."
    )


def similarity(one: str, other: str) -> float:
    """The Jaccard similarity of the word trigrams of two texts."""
    first, second = (trigrams_of(*words_of([normalised(text)]))[0] for text in (one, other))
    shared = len(np.intersect1d(first, second, assume_unique=True))
    return shared / (len(first) + len(second) - shared)


def are_near(one: str, other: str) -> float | None:
    """The similarity of two texts if they are equal or near duplicates, below 1 for the latter; otherwise None."""
    if normalised(one) == normalised(other):
        return 1.0
    words, _ = words_of([normalised(one)])
    others, _ = words_of([normalised(other)])
    if differ_in_one_word(words.tolist(), others.tolist()):
        return 1.0 - 1.0 / len(words)
    score = similarity(one, other)
    return min(score, HIGHEST_NEAR) if score >= NEAR else None


def _record(overlap: Overlap, block: Fingerprints, index: TextIndex) -> np.ndarray:
    """Add the rows of a block that the index contains, and return which these are."""
    first_row = overlap.num_rows
    overlap.num_rows += len(block)
    is_inside = overlap.from_set == overlap.to_set
    to_rows, scores = index.find(block, first_row=first_row if is_inside else None)
    for number in np.flatnonzero(to_rows != NO_ROW).tolist():
        to_row, score = int(to_rows[number]), float(scores[number])
        kind: Kind = "exact" if score >= 1.0 else "near"
        rows = overlap.exact if kind == "exact" else overlap.near
        rows.append(first_row + number)
        if len(rows) <= MOST_EXAMPLES:
            texts = block.beginnings[number], index.beginning(to_row)
            overlap.examples.append(OverlapMatch(kind, first_row + number, to_row, score, *texts))
    return to_rows != NO_ROW


def _record_contained(overlap: Overlap, search: ContainmentSearch, index: TextIndex) -> None:
    """Add the rows that share passages with a text of the index."""
    found = search.found()
    num_shown = {"contained": 0, "passage": 0}
    for row, to_row, share in zip(found.rows.tolist(), found.to_rows.tolist(), found.shares.tolist(), strict=True):
        kind: Kind = "contained" if share >= CONTAINED else "passage"
        (overlap.contained if kind == "contained" else overlap.passages).append(row)
        if num_shown[kind] < MOST_EXAMPLES and row in found.beginnings:
            num_shown[kind] += 1
            texts = found.beginnings[row], index.beginning(to_row)
            overlap.examples.append(OverlapMatch(kind, row, to_row, share, *texts))
