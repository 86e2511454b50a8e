"""Baseline of tagging: the most frequent tag of each word."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from headswap.data.records import TaggedExample
from headswap.data.tagged import OUTSIDE
from headswap.metrics.entities import tagging_metrics


def most_frequent_tags(train: Sequence[TaggedExample], test: Sequence[TaggedExample]) -> dict[str, Any]:
    """Predicts the tag that a word has most often in train; for an unknown word O, or the most frequent tag if train
    has no O."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    all_tags: Counter[str] = Counter()
    for example in train:
        all_tags.update(example.tags)
        for token, tag in zip(example.tokens, example.tags, strict=True):
            counts[token][tag] += 1
    default = OUTSIDE if OUTSIDE in all_tags else _most_frequent(all_tags)
    known = {token: _most_frequent(tags) for token, tags in counts.items()}
    predicted = [[known.get(token, default) for token in example.tokens] for example in test]
    return tagging_metrics([example.tags for example in test], predicted, is_final=True)


def _most_frequent(counts: Counter[str]) -> str:
    """The most frequent name; the first in alphabetical order on a tie."""
    return min(counts, key=lambda name: (-counts[name], name))
