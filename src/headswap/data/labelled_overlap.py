"""The overlap check of labelled examples that may have two texts: pairs, and questions with their contexts.

A pair overlaps with a pair if both texts are equal or nearly equal (pair_overlap.py). A pair that shares only one text
with a test pair, however long, has another input and label, so it is counted and kept. Of questions the contexts of two
sets are compared, each once: all questions about a context that the other set has too overlap, also if they ask
something else, however long the context is and however many questions it has. Within a set a question repeats another
if both question and context are nearly equal. A document of the corpus has no label, so it is compared with the single
texts.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from headswap.core.errors import counted
from headswap.data.fingerprints import normalised
from headswap.data.overlap import Overlap, find_overlap
from headswap.data.pair_overlap import find_pair_overlap
from headswap.data.records import SpanExample, texts_of, whole_text

CORPUS = "corpus"


def overlap_of_examples(
    sets: Mapping[str, Sequence[Any]],
    corpus: Iterable[str] | None,
    *,
    pairs: Sequence[tuple[str, str]],
    containment: Collection[tuple[str, str]],
) -> list[Overlap]:
    """One `Overlap` per (from, to) of `pairs` that there are sets for, in their order; rows are examples."""
    known = {*sets, *([] if corpus is None else [CORPUS])}
    pairs = [pair for pair in pairs if set(pair) <= known]
    has_two = any(len(texts_of(examples[0])) > 1 for examples in sets.values() if examples)
    if not has_two:
        texts: dict[str, Iterable[str]] = {
            role: [whole_text(example) for example in examples] for role, examples in sets.items()
        }
        given = texts if corpus is None else texts | {CORPUS: corpus}
        return find_overlap(given, pairs=pairs, containment=containment)
    labelled = [pair for pair in pairs if CORPUS not in pair]
    of_contexts = [pair for pair in labelled if pair[0] != pair[1] and has_questions(sets[pair[0]])]
    of_labelled = find_pair_overlap(sets, [pair for pair in labelled if pair not in of_contexts])
    of_labelled += _context_overlap(sets, of_contexts, containment)
    by_pair = {(found.from_set, found.to_set): found for found in of_labelled}
    if corpus is None:
        return [by_pair[pair] for pair in pairs]
    parts = {role: _SingleTexts(examples) for role, examples in sets.items()}
    single: dict[str, Iterable[str]] = {role: part.texts for role, part in parts.items()}
    of_corpus = find_overlap(
        single | {CORPUS: corpus}, pairs=[pair for pair in pairs if CORPUS in pair], containment=containment
    )
    for found in (one for one in of_corpus if one.to_set != CORPUS):
        found.examples = [parts[found.to_set].placed(example) for example in found.examples]
    by_pair |= {(found.from_set, found.to_set): found for found in of_corpus}
    return [by_pair[pair] for pair in pairs]


def has_pairs(examples: Sequence[Any]) -> bool:
    """Whether the examples are pairs of texts."""
    return bool(examples) and getattr(examples[0], "text_pair", None) is not None


def has_questions(examples: Sequence[Any]) -> bool:
    """Whether the examples are questions with contexts."""
    return bool(examples) and isinstance(examples[0], SpanExample)


def _context_overlap(
    sets: Mapping[str, Sequence[SpanExample]],
    pairs: Sequence[tuple[str, str]],
    containment: Collection[tuple[str, str]],
) -> list[Overlap]:
    """One `Overlap` per pair of sets; its rows are all questions whose context is also in the other set."""
    contexts = {role: _Contexts(sets[role]) for role in {role for pair in pairs for role in pair}}
    texts = {role: one.texts for role, one in contexts.items()}
    found = find_overlap(texts, pairs=pairs, containment=containment)
    return [_of_questions(overlap, contexts[overlap.from_set], contexts[overlap.to_set]) for overlap in found]


def _of_questions(overlap: Overlap, own: "_Contexts", other: "_Contexts") -> Overlap:
    """An overlap of contexts with the rows of their questions; an example has the first question of each context."""
    return Overlap(
        overlap.from_set,
        overlap.to_set,
        num_rows=sum(map(len, own.rows)),
        exact=own.rows_of(overlap.exact),
        near=own.rows_of(overlap.near),
        contained=own.rows_of(overlap.contained),
        passages=own.rows_of(overlap.passages),
        examples=[
            replace(match, from_row=own.rows[match.from_row][0], to_row=other.rows[match.to_row][0])
            for match in overlap.examples
        ],
    )


class _Contexts:
    """The different contexts of a set, and for each the rows of its questions."""

    def __init__(self, examples: Sequence[SpanExample]) -> None:
        rows: dict[str, list[int]] = {}
        for row, example in enumerate(examples):
            rows.setdefault(normalised(example.context), []).append(row)
        self.rows = list(rows.values())
        self.texts = [examples[own[0]].context for own in self.rows]

    def rows_of(self, contexts: Iterable[int]) -> list[int]:
        """The rows of the questions about some of the contexts."""
        return sorted(row for context in contexts for row in self.rows[context])


class _SingleTexts:
    """The different single texts of a set, and for each the first example that has it."""

    def __init__(self, examples: Sequence[Any]) -> None:
        rows: dict[str, int] = {}
        for row, example in enumerate(examples):
            for text in texts_of(example):
                rows.setdefault(text, row)
        self.texts, self.rows = list(rows), list(rows.values())

    def placed(self, match: Any) -> Any:
        """A match with the row of the example instead of that of the text."""
        return replace(match, to_row=self.rows[match.to_row])


def shared_text_notes(sets: Mapping[str, Sequence[Any]], *, unit: str) -> list[str]:
    """One sentence per set with pairs of which one text is also in a pair of the test set; such pairs are kept."""
    test = sets.get("test", ())
    if not has_pairs(test):
        return []
    known = {normalised(text) for example in test for text in texts_of(example)}
    found = []
    for role in sets.keys() - {"test"}:
        if num := sum(any(normalised(text) in known for text in texts_of(example)) for example in sets[role]):
            found.append(
                f"{counted(num, unit)} of the {len(sets[role]):,} in {role} {'has' if num == 1 else 'have'} a text "
                f"that is also in a {unit} of the test set. Only equal or nearly equal {unit}s count as overlap."
            )
    return sorted(found)
