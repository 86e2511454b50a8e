"""The training texts that an adaptation reads without labels, besides the corpus.

The overlap check of pairs and of questions keeps rows that share one text with a row of test: one sentence of a pair,
or a question that is asked about several contexts. The label of such a row is another one, but its text is a text of
test, so it is left out of these texts, as a document of the corpus would be.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from headswap.data.overlap import Overlap, find_overlap
from headswap.data.records import texts_of
from headswap.study.setup.row_files import TEXTS

SCORED = ("test", "validation")
READERS = ("adapted", "consistency")
"""Arms whose names begin so read texts without labels."""


def single_texts(examples: Sequence[Any], *, without: set[str]) -> list[str]:
    """The different single texts of the examples, in their order, without some."""
    every = dict.fromkeys(text for example in examples for text in texts_of(example))
    return [text for text in every if text not in without]


def overlap_of_single_texts(texts: Sequence[str], sets: Mapping[str, Sequence[Any]]) -> list[Overlap]:
    """The overlap of the texts with the single texts of test and validation; none if every row is one text.

    Rows of one text that are in test or validation are found by the overlap check of the rows.
    """
    if len(texts_of(sets["train"][0])) == 1:
        return []
    scored = {role: single_texts(sets[role], without=set()) for role in SCORED if role in sets}
    return find_overlap({TEXTS: texts, **scored}, pairs=[(TEXTS, role) for role in scored])


def may_read_unlabelled(arms: Sequence[str] | None) -> bool:
    """Whether one of these arms, or of the default arms, may read training texts without their labels."""
    return arms is None or any(name.startswith(READERS) or name.endswith(".toml") for name in arms)
