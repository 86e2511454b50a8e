"""Containment: texts of one set that occur in texts of another set, as a part or as a quotation.

Two texts share a passage if they share a run of 13 words, which may overlap with other runs; a text of 8 to 12 words
is one run. Runs that occur more than 10 times in one of the sets are boilerplate and do not count. The share of
containment of two texts is the part of the words of one of them that is in shared runs, the larger of both directions:
the text may contain the other (a quotation) or be contained in it (a part). The runs of the indexed set and those
of the other set that may be among them are written to temporary files and joined part by part.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from headswap.data.fingerprints import Fingerprints, sorted_unique
from headswap.data.ragged import ragged
from headswap.data.word_runs import (
    FEWEST_WORDS,
    NUM_PARTS,
    RUN_WORDS,
    RunFilter,
    Spill,
    Windows,
    groups_of_parts,
)

CONTAINED = 0.5
"""From this share of containment on, a text counts as contained."""
MANY = 10
"""A run that occurs more often in one of the sets is boilerplate."""
MOST_RECORDS = 1_000_000
"""Runs that are joined at a time; one part may have more."""
MOST_BEGINNINGS = 10_000
RUN = np.dtype([("run", "<u8"), ("text", "<u4"), ("place", "<u4")])
MATCH = np.dtype([("text", "<u4"), ("other", "<u4"), ("place", "<u4"), ("other_place", "<u4")])


class RunIndex:
    """The runs of the texts of one set: texts are added, then `seal` is called, then it can be searched."""

    def __init__(self) -> None:
        self.runs = Spill(RUN)
        self.num_words = np.zeros(0, np.int32)
        self.short_widths: list[int] = []
        """The lengths of texts below 13 words that occur."""
        self._counts: list[np.ndarray] = []
        self._first_eights: list[np.ndarray] = [np.zeros(0, np.uint64)]
        self._num_texts = 0

    def add(self, windows: Windows) -> None:
        """Add texts."""
        places, hashes = windows.full_runs()
        _append(self.runs, windows, places, hashes, self._num_texts)
        for width in range(FEWEST_WORDS, RUN_WORDS):
            starts = windows.starts[windows.num_words == width]
            if len(starts):
                _append(self.runs, windows, starts, windows.runs(starts, width), self._num_texts)
                self._first_eights.append(windows.eight[starts])
                self.short_widths = sorted({*self.short_widths, width})
        self._counts.append(windows.num_words.astype(np.int32))
        self._num_texts += len(windows.num_words)

    def seal(self) -> None:
        """Build the filters."""
        self.runs.seal()
        self.num_words = np.concatenate([self.num_words, *self._counts])
        self._filter = RunFilter(int(self.runs.sizes.sum()))
        for first, last in groups_of_parts(self.runs.sizes, MOST_RECORDS):
            self._filter.add(self.runs.read(first, last)["run"])
        first_eights = sorted_unique(np.concatenate(self._first_eights))
        self._first_filter = RunFilter(len(first_eights))
        self._first_filter.add(first_eights)
        self._counts, self._first_eights = [], []

    def candidates(self, windows: Windows) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The places and hashes of the runs of some texts that may be in this set."""
        places, hashes = windows.full_runs()
        kept = self._filter.may_have(hashes)
        yield places[kept], hashes[kept]
        if self.short_widths:
            begins = self._first_filter.may_have(windows.eight)
            for width in self.short_widths:
                places = begins[windows.left[begins] >= width]
                hashes = windows.runs(places, width)
                kept = self._filter.may_have(hashes)
                yield places[kept], hashes[kept]


@dataclass(frozen=True)
class Contained:
    """The texts that share passages with a text of the indexed set."""

    rows: np.ndarray
    to_rows: np.ndarray
    shares: np.ndarray
    """The share of containment in the text of the other set that has the largest."""
    beginnings: dict[int, str]
    """The first characters of some of the texts."""


class ContainmentSearch:
    """Collects the runs of one set that may be in the indexed set, and finds the texts that share passages with it."""

    def __init__(self, index: RunIndex) -> None:
        self.index = index
        self._hits = Spill(RUN)
        self._counts: list[np.ndarray] = [np.zeros(0, np.int32)]
        self._beginnings: dict[int, str] = {}
        self._num_texts = 0

    def add(self, block: Fingerprints, windows: Windows, wanted: np.ndarray) -> None:
        """Add the next texts; only those with `wanted` are searched."""
        for places, hashes in self.index.candidates(windows):
            is_wanted = wanted[windows.text_of[places]]
            places, hashes = places[is_wanted], hashes[is_wanted]
            _append(self._hits, windows, places, hashes, self._num_texts)
            self._keep_beginnings(block, windows, places)
        self._counts.append(windows.num_words.astype(np.int32))
        self._num_texts += len(windows.num_words)

    def _keep_beginnings(self, block: Fingerprints, windows: Windows, places: np.ndarray) -> None:
        """Keep the beginnings of texts with two runs in a row; one alone is often an error of the filter."""
        if len(self._beginnings) < MOST_BEGINNINGS:
            follows = places[1:][np.diff(places) == 1]
            for text in sorted_unique(windows.text_of[follows]).tolist():
                self._beginnings[self._num_texts + text] = block.beginnings[text]

    def found(self) -> Contained:
        """All texts that share a passage, in ascending order."""
        self._hits.seal()
        matches = Spill(MATCH)
        sizes = self._hits.sizes + self.index.runs.sizes
        for first, last in groups_of_parts(np.where(self._hits.sizes, sizes, 0), MOST_RECORDS):
            joined = _joined(self._hits.read(first, last), self.index.runs.read(first, last))
            matches.append(joined["text"] % NUM_PARTS, joined)
        matches.seal()
        num_words = np.concatenate(self._counts)
        found = [np.zeros((0, 3))]
        for first, last in groups_of_parts(matches.sizes, MOST_RECORDS):
            found.append(_shares(matches.read(first, last), num_words, self.index.num_words))
        every = np.concatenate(found)
        every = every[np.argsort(every[:, 0], kind="stable")]
        rows, to_rows = every[:, 0].astype(np.int64), every[:, 1].astype(np.int64)
        return Contained(rows, to_rows, every[:, 2], self._beginnings)


def _append(spill: Spill, windows: Windows, places: np.ndarray, hashes: np.ndarray, first_text: int) -> None:
    records = np.empty(len(places), dtype=RUN)
    texts = windows.text_of[places]
    records["run"], records["text"], records["place"] = hashes, texts + first_text, places - windows.starts[texts]
    spill.append(hashes >> np.uint64(56), records)


def _joined(own: np.ndarray, other: np.ndarray) -> np.ndarray:
    """All pairs of places with the same run, without boilerplate."""
    other = other[_is_in(other["run"], sorted_unique(own["run"]))]
    own = own[_is_in(own["run"], sorted_unique(other["run"]))]
    many = np.union1d(_boilerplate(own), _boilerplate(other))
    own, other = own[~_is_in(own["run"], many)], other[~_is_in(other["run"], many)]
    other = other[np.argsort(other["run"], kind="stable")]
    begins = np.searchsorted(other["run"], own["run"])
    counts = np.searchsorted(other["run"], own["run"], "right") - begins
    own, other = np.repeat(own, counts), other[ragged(begins, counts)]
    matches = np.empty(len(own), dtype=MATCH)
    matches["text"], matches["place"] = own["text"], own["place"]
    matches["other"], matches["other_place"] = other["text"], other["place"]
    return matches


def _is_in(values: np.ndarray, ascending: np.ndarray) -> np.ndarray:
    if not len(ascending):
        return np.zeros(len(values), dtype=bool)
    return ascending[np.searchsorted(ascending, values).clip(max=len(ascending) - 1)] == values


def _boilerplate(records: np.ndarray) -> np.ndarray:
    """The runs that occur more often than `MANY`, in ascending order."""
    runs = np.sort(records["run"])
    starts = np.flatnonzero(np.append(True, runs[1:] != runs[:-1])[: len(runs)])
    return runs[starts[np.diff(np.append(starts, len(runs))) > MANY]]


def _shares(matches: np.ndarray, num_words: np.ndarray, other_num_words: np.ndarray) -> np.ndarray:
    """(text, other text, share of containment) for each text, with the other text that has the largest share."""
    pairs = (matches["text"].astype(np.uint64) << np.uint64(32)) | matches["other"]
    widths = np.minimum(other_num_words[matches["other"]], RUN_WORDS)
    keys, covered = _covered(pairs, matches["place"], widths)
    _, other_covered = _covered(pairs, matches["other_place"], widths)
    texts, others = (keys >> np.uint64(32)).astype(np.int64), (keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
    shares = np.maximum(covered / num_words[texts], other_covered / other_num_words[others])
    best = np.lexsort((others, -shares, texts))
    best = best[np.append(True, np.diff(texts[best]) > 0)[: len(best)]]
    return np.stack([texts[best], others[best], shares[best]], axis=1)


def _covered(pairs: np.ndarray, places: np.ndarray, widths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The different pairs in ascending order, and how many words are in the runs at the places of each pair."""
    order = np.lexsort((places, pairs))
    pairs, places, widths = pairs[order], places[order].astype(np.int64), widths[order]
    is_last = np.append(pairs[1:] != pairs[:-1], True)[: len(pairs)]
    steps = np.append(np.diff(places), 0)[: len(places)]
    words = np.where(is_last, widths, np.minimum(widths, steps))
    numbers = np.cumsum(is_last) - is_last
    return pairs[is_last], np.bincount(numbers, weights=words, minlength=int(is_last.sum()))
