"""Entities in tags, counted by the rules of seqeval (its default mode, which is conlleval's).

An entity is right only if its type, its first word and its last word are right. Sequences that IOB2 does not allow are
accepted: an I- after O, or after another type, begins an entity. If no tag of the training set has a prefix (NOUN,
VERB), tags are no entities: each word then counts as one, so precision, recall and F1 all equal the share of right
words. The scored set does not decide this: one without any entity would be scored by another metric.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from headswap.data.tagged import OUTSIDE, PREFIXES
from headswap.metrics.intervals import f1_of_counts, interval_of


class Span(NamedTuple):
    """An entity: its type and its words, `end` not included."""

    type: str
    start: int
    end: int


def entities_of(tags: Sequence[str]) -> list[Span]:
    """The entities in a sequence of tags."""
    found: list[Span] = []
    begin, open_type, previous = 0, "", OUTSIDE
    for position, tag in enumerate([*tags, OUTSIDE]):
        mark, kind = (tag[0], tag[2:]) if tag.startswith(PREFIXES) else (OUTSIDE, "")
        is_outside = mark == OUTSIDE
        # seqeval's end_of_chunk and start_of_chunk, for the prefixes B I E S
        if previous != OUTSIDE and (is_outside or previous in "ES" or mark in "BS" or kind != open_type):
            found.append(Span(open_type, begin, position))
        if not is_outside and (mark in "BS" or previous in "OES" or kind != open_type):
            begin = position
        previous, open_type = mark, kind
    return found


def are_plain(labels: Iterable[str]) -> bool:
    """Whether the tags of a training set are no entities, so that each word counts as one."""
    return not any(label.startswith(PREFIXES) for label in labels)


def count_sentence(truth: Sequence[str], predicted: Sequence[str], *, is_plain: bool) -> dict[str, np.ndarray]:
    """The numbers of (correct, predicted, true) entities, by type."""
    if is_plain:
        spans = [{Span(tag, at, at + 1) for at, tag in enumerate(tags)} for tags in (truth, predicted)]
    else:
        spans = [set(entities_of(truth)), set(entities_of(predicted))]
    counts: dict[str, np.ndarray] = {}
    for column, members in ((0, spans[0] & spans[1]), (1, spans[1]), (2, spans[0])):
        for span in members:
            counts.setdefault(span.type, np.zeros(3, dtype=np.int64))[column] += 1
    return counts


def tagging_metrics(
    truth: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    labels: Iterable[str],
    *,
    is_final: bool = False,
) -> dict[str, Any]:
    """Entity precision, recall and F1, F1 by type, and the share of words with the right tag.

    `labels` are the tags of the training set, which decide whether tags are entities. Macro-F1 is the mean over the
    types that occur or are predicted, as in seqeval.
    """
    is_plain = are_plain(labels)
    sentences = np.zeros((len(truth), 3), dtype=np.int64)
    types: dict[str, np.ndarray] = {}
    hits = words = 0
    for number, (right, guess) in enumerate(zip(truth, predicted, strict=True)):
        for kind, counts in count_sentence(right, guess, is_plain=is_plain).items():
            sentences[number] += counts
            types[kind] = types.get(kind, 0) + counts
        hits += sum(a == b for a, b in zip(right, guess, strict=True))
        words += len(right)
    total = sentences.sum(axis=0)
    by_type = {kind: float(f1_of_counts(types[kind])) for kind in sorted(types)}
    metrics = {
        "f1": float(f1_of_counts(total)),
        "precision": float(total[0] / max(1, total[1])),
        "recall": float(total[0] / max(1, total[2])),
        "macro_f1": float(np.mean(list(by_type.values()))) if by_type else 0.0,
        "accuracy": hits / max(1, words),
        "f1_by_type": by_type,
        "num_entities": int(total[2]),
        "num_words": words,
        "num_examples": len(truth),
        "scheme": "plain tags" if is_plain else "entities",
    }
    if is_final:
        metrics["interval"] = interval_of("f1", sentences, f1_of_counts)
    return metrics
