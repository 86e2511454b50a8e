"""Which tokens are hidden from the model, and by what: masks as a pure function of a token's place and the step.

A unit is a token, a word, or a span of words. A unit is chosen as a whole, and as a whole it is replaced by `<mask>`
(80 % by default), by random tokens (10 %), or left as it is (10 %). Special tokens are never chosen. Numbers are drawn
for the place of a unit in the corpus, so that a mask does not depend on how a batch is cut.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from headswap.batches.config import MaskingSettings
from headswap.core.random_streams import Draws
from headswap.tokens.tokenizer import Tokenizer

SPAN_STOP = 0.2
LONGEST_SPAN = 10
"""Lengths of spans in words: geometric with this chance to stop, cut at the longest; 3.8 words on average."""


@dataclass(frozen=True, slots=True)
class Places:
    """Tokens of one or several sequences end to end, and where each of them stands in the corpus."""

    ids: np.ndarray
    documents: np.ndarray
    positions: np.ndarray
    word_starts: np.ndarray | None
    """Whether a token begins a word; needed for words and spans."""
    sequence_starts: np.ndarray
    """Index of the first token of each sequence: no unit reaches from one into the next."""


@dataclass(frozen=True, slots=True)
class Masked:
    """The tokens as the model sees them, and which of them it must name."""

    ids: np.ndarray
    target_index: np.ndarray
    target_value: np.ndarray


class Masker:
    """Draws masks for one tokenizer."""

    def __init__(self, tokenizer: Tokenizer, settings: MaskingSettings) -> None:
        assert tokenizer.mask_id is not None
        self.settings, self.mask_id = settings, tokenizer.mask_id
        self.is_special = np.zeros(tokenizer.vocab_size, dtype=bool)
        self.is_special[list(tokenizer.special_ids)] = True
        self.ordinary_ids = np.flatnonzero(~self.is_special)

    def __call__(self, places: Places, draws: Draws) -> Masked:
        """Hide some of the tokens."""
        documents, positions = places.documents, places.positions
        if self.settings.mask_unit != "token":
            unit = self._units(places, draws)
            first = np.flatnonzero(np.diff(unit, prepend=-1))[unit]
            documents, positions = documents[first], positions[first]
        chance = draws.uniform("choice", documents, positions)
        index = np.flatnonzero((chance < self.settings.mlm_probability) & ~self.is_special[places.ids])
        fate = draws.uniform("fate", documents[index], positions[index])
        upto = self.settings.mask_replace_prob + self.settings.random_replace_prob
        ids = places.ids.copy()
        ids[index[fate < self.settings.mask_replace_prob]] = self.mask_id
        swapped = index[(fate >= self.settings.mask_replace_prob) & (fate < upto)]
        drawn = draws.uniform("substitute", places.documents[swapped], places.positions[swapped])
        ids[swapped] = self.ordinary_ids[(drawn * len(self.ordinary_ids)).astype(np.int64)]
        return Masked(ids, index, places.ids[index].astype(np.int64))

    def _units(self, places: Places, draws: Draws) -> np.ndarray:
        """The number of the word or span that each token belongs to, growing from 0."""
        starts = np.zeros(len(places.ids), dtype=bool)
        starts[places.sequence_starts] = True
        assert places.word_starts is not None
        starts |= places.word_starts.astype(bool)
        # A special token is a word of its own, and the token behind it begins one.
        is_special = self.is_special[places.ids]
        starts |= is_special
        starts[1:] |= is_special[:-1]
        if self.settings.mask_unit == "word":
            return np.cumsum(starts) - 1
        return self._spans(starts, is_special, places, draws)

    def _spans(self, word_starts: np.ndarray, is_special: np.ndarray, places: Places, draws: Draws) -> np.ndarray:
        """Words joined to spans of drawn lengths: a span begins where the one before it has ended."""
        first_of_word = np.flatnonzero(word_starts)
        drawn = draws.uniform("span", places.documents[first_of_word], places.positions[first_of_word])
        lengths = np.minimum(np.floor(np.log1p(-drawn) / np.log(1 - SPAN_STOP)).astype(np.int64) + 1, LONGEST_SPAN)
        must_start = is_special[first_of_word] | np.isin(first_of_word, places.sequence_starts)
        must_start[1:] |= is_special[first_of_word[:-1]]
        begins = np.zeros(len(first_of_word), dtype=bool)
        end = 0
        for number, (length, forced) in enumerate(zip(lengths.tolist(), must_start.tolist(), strict=True)):
            if forced or number >= end:
                begins[number] = True
                end = number + length
        starts = np.zeros_like(word_starts)
        starts[first_of_word[begins]] = True
        return np.cumsum(starts) - 1


def places_of(parts: Sequence[tuple[np.ndarray, int, int, np.ndarray | None]]) -> Places:
    """Sequences end to end: (ids, document, position of the first, word starts) each."""
    lengths = [len(ids) for ids, *_ in parts]
    starts = np.cumsum([0, *lengths[:-1]])
    words = [word_starts for *_, word_starts in parts]
    return Places(
        ids=np.concatenate([ids for ids, *_ in parts]),
        documents=np.repeat([document for _, document, *_ in parts], lengths),
        positions=np.arange(sum(lengths)) - np.repeat(starts - [start for _, _, start, _ in parts], lengths),
        word_starts=None if words[0] is None else np.concatenate(words),  # type: ignore[arg-type]
        sequence_starts=starts,
    )
