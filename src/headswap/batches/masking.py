"""Which tokens are masked, and how: a pure function of a token's position in the corpus and of the step.

A unit is a token, 1 to 3 tokens, a word, or a span of words. A unit is chosen as a whole, and as a whole it is
replaced by `<mask>` (80 % by default), by random tokens (10 %), or left unchanged (10 %). Special tokens are never
chosen. The random numbers depend on the position of the unit in the corpus, so masks do not depend on how rows are
divided into batches.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import permutations

import numpy as np

from headswap.batches.config import MaskingSettings
from headswap.core.random_streams import Draws
from headswap.tokens.tokenizer import Tokenizer

SPAN_STOP = 0.2
LONGEST_SPAN = 10
"""Span lengths in words: geometric with this probability to stop, at most `LONGEST_SPAN`; 3.8 words on average."""
BLOCK = 6
NGRAM_STARTS = np.array([[place in (0, a, a + b) for place in range(BLOCK)] for a, b, _ in permutations((1, 2, 3))])
"""A block of 6 tokens is divided into n-grams of 1, 2 and 3 tokens, in one of 6 orders; which tokens begin one."""


@dataclass(frozen=True, slots=True)
class CorpusTokens:
    """Tokens of one or several sequences end to end, with the document and position of each token."""

    ids: np.ndarray
    documents: np.ndarray
    positions: np.ndarray
    word_starts: np.ndarray | None
    """Whether a token begins a word; required for the units word and span."""
    sequence_starts: np.ndarray
    """Index of the first token of each sequence; no unit crosses from one sequence into the next."""


@dataclass(frozen=True, slots=True)
class MaskedTokens:
    """The input tokens after masking, and the tokens to predict."""

    ids: np.ndarray
    target_index: np.ndarray
    target_value: np.ndarray


class Masker:
    """Masks tokens of one tokenizer's vocabulary."""

    def __init__(self, tokenizer: Tokenizer, settings: MaskingSettings) -> None:
        assert tokenizer.mask_id is not None
        self.settings, self.mask_id = settings, tokenizer.mask_id
        self.is_special = np.zeros(tokenizer.vocab_size, dtype=bool)
        self.is_special[list(tokenizer.special_ids)] = True
        self.ordinary_ids = np.flatnonzero(~self.is_special)

    def __call__(self, tokens: CorpusTokens, draws: Draws) -> MaskedTokens:
        """Mask some of the tokens."""
        documents, positions = tokens.documents, tokens.positions
        if self.settings.mask_unit not in (None, "token"):
            unit = self._units(tokens, draws)
            first = np.flatnonzero(np.diff(unit, prepend=-1))[unit]
            documents, positions = documents[first], positions[first]
        chance = draws.uniform("choice", documents, positions)
        probability = self.settings.probability_at(draws.progress)
        index = np.flatnonzero((chance < probability) & ~self.is_special[tokens.ids])
        replacement = draws.uniform("fate", documents[index], positions[index])
        masked_or_random = self.settings.mask_replace_prob + self.settings.random_replace_prob
        ids = tokens.ids.copy()
        ids[index[replacement < self.settings.mask_replace_prob]] = self.mask_id
        replaced = index[(replacement >= self.settings.mask_replace_prob) & (replacement < masked_or_random)]
        drawn = draws.uniform("substitute", tokens.documents[replaced], tokens.positions[replaced])
        ids[replaced] = self.ordinary_ids[(drawn * len(self.ordinary_ids)).astype(np.int64)]
        return MaskedTokens(ids, index, tokens.ids[index].astype(np.int64))

    def _units(self, tokens: CorpusTokens, draws: Draws) -> np.ndarray:
        """The number of the n-gram, word or span of each token, counted from 0."""
        starts = np.zeros(len(tokens.ids), dtype=bool)
        starts[tokens.sequence_starts] = True
        if self.settings.mask_unit == "ngram":
            starts |= _ngram_starts(tokens, draws)
        else:
            assert tokens.word_starts is not None
            starts |= tokens.word_starts.astype(bool)
        # A special token is a word of its own, and the token after it begins a word.
        is_special = self.is_special[tokens.ids]
        starts |= is_special
        starts[1:] |= is_special[:-1]
        if self.settings.mask_unit != "span":
            return np.cumsum(starts) - 1
        return self._spans(starts, is_special, tokens, draws)

    def _spans(self, word_starts: np.ndarray, is_special: np.ndarray, tokens: CorpusTokens, draws: Draws) -> np.ndarray:
        """The number of the span of each token: consecutive words, with span lengths drawn at random."""
        first_of_word = np.flatnonzero(word_starts)
        drawn = draws.uniform("span", tokens.documents[first_of_word], tokens.positions[first_of_word])
        lengths = np.minimum(np.floor(np.log1p(-drawn) / np.log(1 - SPAN_STOP)).astype(np.int64) + 1, LONGEST_SPAN)
        must_start = is_special[first_of_word] | np.isin(first_of_word, tokens.sequence_starts)
        must_start[1:] |= is_special[first_of_word[:-1]]
        begins = np.zeros(len(first_of_word), dtype=bool)
        next_start = 0
        for number, (length, forced) in enumerate(zip(lengths.tolist(), must_start.tolist(), strict=True)):
            if forced or number >= next_start:
                begins[number] = True
                next_start = number + length
        starts = np.zeros_like(word_starts)
        starts[first_of_word[begins]] = True
        return np.cumsum(starts) - 1


def _ngram_starts(tokens: CorpusTokens, draws: Draws) -> np.ndarray:
    """Whether each token begins an n-gram of 1 to 3 tokens; the blocks are moved by 0 to 5 tokens at every step."""
    places = tokens.positions + int(draws.once("move") * BLOCK)
    order = (draws.uniform("ngram", tokens.documents, places // BLOCK) * len(NGRAM_STARTS)).astype(np.int64)
    return NGRAM_STARTS[order, places % BLOCK]


def joined_tokens(parts: Sequence[tuple[np.ndarray, int, int, np.ndarray | None]]) -> CorpusTokens:
    """The tokens of several sequences, each given as (ids, document, position of its first token, word starts)."""
    lengths = [len(ids) for ids, *_ in parts]
    starts = np.cumsum([0, *lengths[:-1]])
    words = [word_starts for *_, word_starts in parts]
    return CorpusTokens(
        ids=np.concatenate([ids for ids, *_ in parts]),
        documents=np.repeat([document for _, document, *_ in parts], lengths),
        positions=np.arange(sum(lengths)) - np.repeat(starts - [start for _, _, start, _ in parts], lengths),
        word_starts=None if words[0] is None else np.concatenate(words),  # type: ignore[arg-type]
        sequence_starts=starts,
    )
