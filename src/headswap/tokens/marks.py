"""What else is known about the tokens of a text: where words and sentences begin, and their character offsets."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

SENTENCE_END = re.compile(r"[.!?…][\"'»”’)\]]*\s+|\n\s*")


@dataclass(frozen=True, slots=True)
class MarkedIds:
    """The ids of a text, and for each token whether it begins a word and whether it begins a sentence."""

    ids: np.ndarray
    word_starts: np.ndarray
    sentence_starts: np.ndarray


@dataclass(frozen=True, slots=True)
class PlacedIds:
    """The ids of a text, and the character offsets of each token without surrounding white space."""

    ids: np.ndarray
    starts: np.ndarray
    ends: np.ndarray


def sentence_positions(text: str) -> list[int]:
    """Positions where sentences begin: the start, after . ! ? … followed by white space, and after a line break."""
    return [0, *(match.end() for match in SENTENCE_END.finditer(text) if match.end() < len(text))]


def mark_sentences(text: str, ends: np.ndarray) -> np.ndarray:
    """Which tokens begin a sentence, given the end position of each token in `text`."""
    starts = np.zeros(len(ends), dtype=bool)
    first = np.searchsorted(ends, np.asarray(sentence_positions(text)), side="right")  # the first token ending after it
    starts[first[first < len(ends)]] = True
    starts[:1] = True
    return starts


def placed(text: str, ids: np.ndarray, offsets: Sequence[tuple[int, int]] | np.ndarray) -> PlacedIds:
    """Ids with character offsets; white space that belongs to a token (`Ġfilm`, `▁film`) is excluded."""
    starts, ends = np.array(offsets, dtype=np.int64).reshape(-1, 2).T
    places = np.arange(len(text))
    is_space = np.fromiter((character.isspace() for character in text), dtype=bool, count=len(text))
    next_nonspace = np.append(np.minimum.accumulate(np.where(is_space, len(text), places)[::-1])[::-1], len(text))
    after_nonspace = np.append(0, np.maximum.accumulate(np.where(is_space, 0, places + 1)))
    starts = np.minimum(next_nonspace[starts], ends)
    return PlacedIds(ids, starts, np.maximum(after_nonspace[ends], starts))
