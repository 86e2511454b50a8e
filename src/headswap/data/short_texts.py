"""Short texts that differ in one word, which a similarity of word trigrams cannot tell from texts with another content.

One word changes up to three trigrams, so that two texts of 12 words with one other word have a Jaccard similarity of
.54. A text of 8 to 28 words is therefore also compared word by word: two texts differ in one word (changed, added or
removed) if they are equal after one word is left out of each or of one. The hashes of a text with each of its words
left out are computed from prefix sums. From 29 words on, one changed word leaves a similarity of at least .8, the
limit of near duplicates. In a text of fewer than 8 words one word is too large a part of the content.
"""

from collections.abc import Sequence

import numpy as np

from headswap.data.fingerprints import Fingerprints

FEWEST_WORDS, MOST_WORDS = 8, 28
NO_ROW = -1
_BASE = 0x9E3779B97F4A7C15  # odd, so it has an inverse modulo 2**64
_INVERSE = np.uint64(pow(_BASE, -1, 1 << 64))
_POWERS = np.array([pow(_BASE, power, 1 << 64) for power in range(MOST_WORDS)], dtype=np.uint64)
_MIXER = np.uint64(0xC2B2AE3D27D4EB4F)


class ShortTexts:
    """The short texts of one set: they are added, then `seal` is called, then texts that differ in one word are found.

    It needs 12 bytes per word of a short text, in memory.
    """

    def __init__(self) -> None:
        self._keys: list[np.ndarray] = [np.zeros(0, np.uint64)]
        self._rows: list[np.ndarray] = [np.zeros(0, np.uint32)]

    def add(self, block: Fingerprints, first_row: int) -> None:
        """Add the short texts of a block, whose first text is row `first_row`."""
        keys, texts = _keys(block)
        self._keys.append(keys)
        self._rows.append((texts + first_row).astype(np.uint32))

    def seal(self) -> None:
        """Sort what was added; of the rows with the same key the first is kept."""
        keys, rows = np.concatenate(self._keys), np.concatenate(self._rows)
        self._keys, self._rows = [], []
        order = np.lexsort((rows, keys))
        keys = keys[order]
        is_first = np.append(True, keys[1:] != keys[:-1])[: len(keys)]
        self.keys, self.rows = keys[is_first], rows[order[is_first]]

    def find(self, block: Fingerprints) -> tuple[np.ndarray, np.ndarray]:
        """The first row that differs in at most one word, or `NO_ROW`; and the share of the words that are equal."""
        nearest = np.full(len(block), np.iinfo(np.int64).max)
        keys, texts = _keys(block)
        if len(self.keys):
            places = np.searchsorted(self.keys, keys).clip(max=len(self.keys) - 1)
            is_found = self.keys[places] == keys
            np.minimum.at(nearest, texts[is_found], self.rows[places[is_found]].astype(np.int64))
        is_near = nearest < np.iinfo(np.int64).max
        return np.where(is_near, nearest, NO_ROW), np.where(is_near, 1.0 - 1.0 / block.num_words, 0.0)


def differ_in_one_word(words: Sequence[int], others: Sequence[int]) -> bool:
    """Whether two texts of 8 to 28 words are equal after at most one word is left out of each, as `find` finds them."""
    if not all(FEWEST_WORDS <= len(one) <= MOST_WORDS for one in (words, others)):
        return False
    return not _with_one_left_out(words).isdisjoint(_with_one_left_out(others))


def _with_one_left_out(words: Sequence[int]) -> set[tuple[int, ...]]:
    """The words, and the words without each of them."""
    return {tuple(words), *((*words[:place], *words[place + 1 :]) for place in range(len(words)))}


def _keys(block: Fingerprints) -> tuple[np.ndarray, np.ndarray]:
    """Hashes of each short text and of what is left of it without one word, and the numbers of the texts."""
    is_short = (block.num_words >= FEWEST_WORDS) & (block.num_words <= MOST_WORDS)
    texts, lengths = np.flatnonzero(is_short), block.num_words[is_short]
    if not len(texts):
        return np.zeros(0, np.uint64), texts
    words = block.words[np.repeat(is_short, block.num_words)].astype(np.uint64) + np.uint64(1)
    words *= _MIXER
    words ^= words >> np.uint64(29)
    ends = np.cumsum(lengths)
    starts = ends - lengths
    places = np.arange(len(words)) - np.repeat(starts, lengths)
    sums = np.append(np.uint64(0), np.cumsum(words * _POWERS[places]))
    before = sums[:-1] - np.repeat(sums[starts], lengths)
    after = (np.repeat(sums[ends], lengths) - sums[1:]) * _INVERSE
    without_one = before + after + np.repeat(lengths - 1, lengths).astype(np.uint64) * _MIXER
    whole = sums[ends] - sums[starts] + lengths.astype(np.uint64) * _MIXER
    return np.concatenate([whole, without_one]), np.concatenate([texts, np.repeat(texts, lengths)])
