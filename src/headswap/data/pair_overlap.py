"""The overlap check of pairs of texts: two pairs overlap if both texts of one are equal or nearly equal to the other's.

In sets such as SICK and STS-B one sentence occurs in many pairs, each with another second sentence and another label.
Both texts together cannot be compared as one text: a long text that two pairs share would make them near duplicates
although the other two texts have nothing in common. So every single text is searched in an index of the single texts
of the other set (text_index.py). Texts of that set that are near duplicates form groups. The pairs whose texts are in
the groups of both texts are candidates, then those with a text in one of the two groups, and each candidate is
verified text by text. The order of the two texts does
not count. A question and its context can be compared in the same way.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from headswap.data.fingerprints import beginning, fingerprints, normalised
from headswap.data.overlap import MOST_EXAMPLES, NEAR, Kind, Overlap, OverlapMatch, are_near
from headswap.data.records import texts_of, whole_text
from headswap.data.text_index import NO_ROW, TextIndex

SEPARATOR = "\n"
MOST_CANDIDATES = 1_000
"""Different pairs that one pair is compared with. Sets of texts from one template may have more."""
MOST_WITH_ONE = 250
"""The same for pairs that share the group of one text only, per text."""
Pair = tuple[str, str]


def find_pair_overlap(sets: Mapping[str, Sequence[Any]], pairs: Sequence[tuple[str, str]]) -> list[Overlap]:
    """One `Overlap` per (from, to) of `pairs`, with `exact` and `near` rows."""
    keys = {role: [_key(example) for example in examples] for role, examples in sets.items()}
    indexes = {to: PairIndex(keys[to]) for to in {to for _, to in pairs}}
    found = []
    for one, to in pairs:
        overlap, matches = (
            Overlap(one, to, num_rows=len(keys[one])),
            _matches(keys[one], indexes[to], is_inside=one == to),
        )
        for row, (to_row, score) in matches.items():
            kind: Kind = "exact" if score >= 1.0 else "near"
            rows = overlap.exact if kind == "exact" else overlap.near
            rows.append(row)
            if len(rows) <= MOST_EXAMPLES:
                texts = _shown(sets[one][row]), _shown(sets[to][to_row])
                overlap.examples.append(OverlapMatch(kind, row, to_row, score, *texts))
        found.append(overlap)
    return found


class PairIndex:
    """The pairs of one set: finds the first equal pair, otherwise the first pair whose texts are both near."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self.pairs = pairs
        self.first_rows: dict[Pair, int] = {}
        for row, pair in enumerate(pairs):
            self.first_rows.setdefault(pair, row)
        texts = list(dict.fromkeys(text for pair in self.first_rows for text in pair))
        self.index = TextIndex(NEAR)
        for block in fingerprints(texts):
            self.index.add(block)
        self.index.seal()
        self.groups = dict(zip(texts, self._groups(), strict=True))
        self.candidates: dict[tuple[int, int], list[int]] = defaultdict(list)
        for pair, row in self.first_rows.items():
            self.candidates[_ordered(self.groups[pair[0]], self.groups[pair[1]])].append(row)
        self.group_of_row = list(self.groups.values())
        self.rows_of: dict[int, list[int]] = defaultdict(list)
        """Per group, the rows of the pairs that have a text in it."""
        for pair, row in self.first_rows.items():
            for group in {self.groups[text] for text in pair}:
                self.rows_of[group].append(row)

    def _groups(self) -> list[int]:
        """A number per text, equal for texts that near duplicates connect."""
        groups: list[int] = []
        for block in self.index.blocks():
            rows, _ = self.index.find(block, first_row=len(groups))
            for row in rows.tolist():
                groups.append(len(groups) if row == NO_ROW else groups[row])
        return groups

    def groups_of(self, texts: Sequence[str]) -> dict[str, int]:
        """The group of each text that is in this set or near to one of its texts."""
        found = {text: self.groups[text] for text in texts if text in self.groups}
        unknown = [text for text in texts if text not in found]
        at = 0
        for block in fingerprints(unknown):
            rows, _ = self.index.find(block)
            for row in rows.tolist():
                if row != NO_ROW:
                    found[unknown[at]] = self.group_of_row[row]
                at += 1
        return found

    def find(self, pair: Pair, groups: Mapping[str, int], *, before: int | None) -> tuple[int, float] | None:
        """The row of an equal or near pair and its similarity; with `before`, only rows before this one."""
        limit = len(self.pairs) if before is None else before
        if (row := self.first_rows.get(pair, limit)) < limit:
            return row, 1.0
        if pair[0] not in groups or pair[1] not in groups:
            return None
        both = self.candidates.get(_ordered(groups[pair[0]], groups[pair[1]]), ())
        # A text can be near to texts of several groups and is in one of them, so pairs that share one group count too.
        one = [row for text in pair for row in self.rows_of[groups[text]][:MOST_WITH_ONE]]
        for row in dict.fromkeys([*both[:MOST_CANDIDATES], *one]):
            if row < limit and (score := _similarity(pair, self.pairs[row])) is not None:
                return row, score
        return None


def _matches(pairs: Sequence[Pair], index: PairIndex, *, is_inside: bool) -> dict[int, tuple[int, float]]:
    """The rows that overlap with a pair of the index: its row and the similarity; inside a set, with an earlier row."""
    groups = index.groups_of(list(dict.fromkeys(text for pair in pairs for text in pair)))
    found = ((row, index.find(pair, groups, before=row if is_inside else None)) for row, pair in enumerate(pairs))
    return {row: match for row, match in found if match is not None}


def _shown(example: Any) -> str:
    return beginning(whole_text(example, separator=SEPARATOR))


def _key(example: Any) -> Pair:
    """The normalised texts of a pair, sorted."""
    first, second = sorted(map(normalised, texts_of(example)))
    return first, second


def _ordered(one: int, other: int) -> tuple[int, int]:
    return min(one, other), max(one, other)


def _similarity(pair: Pair, other: Pair) -> float | None:
    """The smaller similarity of the two texts, in the order in which both are near; None if there is none."""
    found = []
    for texts in (other, other[::-1]):
        first = _are_near(pair[0], texts[0])
        second = None if first is None else _are_near(pair[1], texts[1])
        if first is not None and second is not None:
            found.append(min(first, second))
    return max(found, default=None)


@lru_cache(maxsize=1 << 16)
def _are_near(one: str, other: str) -> float | None:
    """One text is in many pairs, so the same two are compared often."""
    return are_near(one, other)
