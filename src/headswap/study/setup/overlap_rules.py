"""Which overlaps between two sets of a study bias scores: their rows are dropped, or the study stops."""

import logging
from collections.abc import Callable, Sequence

from headswap.data.overlap import Overlap, overlap_sentence, passages_sentence

log = logging.getLogger("headswap")
PAIRS = (
    ("train", "test"), ("validation", "test"), ("corpus", "test"), ("train", "validation"), ("corpus", "validation"),
    ("corpus", "train"), ("train", "train"), ("test", "test"),
)  # fmt: skip
HARMFUL_PAIRS = PAIRS[:5]
"""The pairs that bias test or validation scores. The other pairs are only reported: a training text in the corpus has
no label there, and duplicates within one set do not affect another one."""


def harmful_rows(overlap: Sequence[Overlap], unit: Callable[[str], str]) -> tuple[dict[str, set[int]], list[str]]:
    """The rows per set that bias scores, with a sentence per pair of sets; `unit` names a row of a set."""
    drop = {name: set[int]() for name in ("train", "validation", "corpus")}
    sentences = []
    for found in overlap:
        if (found.from_set, found.to_set) in HARMFUL_PAIRS and found.rows:
            drop[found.from_set].update(found.rows)
            sentences.append(overlap_sentence(found, unit=unit(found.from_set)))
            log.warning(sentences[-1])
    for found in overlap:
        if found.passages:
            log.info(passages_sentence(found, unit=unit(found.from_set)))
    return drop, sentences
