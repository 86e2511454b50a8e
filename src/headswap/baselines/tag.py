"""Baseline of tagging: the most frequent tag of each word."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from headswap.baselines.arm_baseline import CROSS_VALIDATION, ArmBaseline
from headswap.baselines.tfidf import folds_without_strata
from headswap.data.records import TaggedExample
from headswap.data.tagged import OUTSIDE
from headswap.metrics.entities import tagging_metrics

Tags = tuple[list[list[str]], dict[str, Any]]


def most_frequent_tags(
    train: Sequence[TaggedExample], test: Sequence[TaggedExample], *, labels: Sequence[str] = ()
) -> dict[str, Any]:
    """Predicts the tag that a word has most often in train; for an unknown word O, or the most frequent tag if train
    has no O. `labels` are those of the model; by default those of train."""
    return scores_of_tags(_predicted(train, test), train, test, labels)


def scores_of_tags(
    predicted: Sequence[Sequence[str]],
    train: Sequence[TaggedExample],
    test: Sequence[TaggedExample],
    labels: Sequence[str],
) -> dict[str, Any]:
    """The metrics of predicted tags on test; without labels the tags of train decide whether tags are entities."""
    known = labels or {tag for example in train for tag in example.tags}
    return tagging_metrics([example.tags for example in test], predicted, known, is_final=True)


Tagger = Callable[[Sequence[TaggedExample], Sequence[TaggedExample]], list[list[str]]]
"""From train and test to the tags of test."""


def tags_and_score(
    predict: Tagger,
    train: Sequence[TaggedExample],
    test: Sequence[TaggedExample],
    labels: Sequence[str],
    metric: str,
) -> Tags:
    """The predicted tags of test, and the score of the same tagger by cross-validation on train."""
    truth: list[tuple[str, ...]] = []
    held_out: list[list[str]] = []
    for rest, part in folds_without_strata(len(train), None):
        scored = [train[row] for row in part]
        truth += [example.tags for example in scored]
        held_out += predict([train[row] for row in rest], scored)
    return predict(train, test), {CROSS_VALIDATION: tagging_metrics(truth, held_out, labels).get(metric)}


def frequent_tags(
    train: Sequence[TaggedExample], test: Sequence[TaggedExample], labels: Sequence[str], metric: str
) -> Tags:
    """The most frequent tags as the outputs of an arm."""
    return tags_and_score(_predicted, train, test, labels, metric)


def _predicted(train: Sequence[TaggedExample], test: Sequence[TaggedExample]) -> list[list[str]]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    all_tags: Counter[str] = Counter()
    for example in train:
        all_tags.update(example.tags)
        for token, tag in zip(example.tokens, example.tags, strict=True):
            counts[token][tag] += 1
    default = OUTSIDE if OUTSIDE in all_tags else _most_frequent(all_tags)
    known = {token: _most_frequent(tags) for token, tags in counts.items()}
    return [[known.get(token, default) for token in example.tokens] for example in test]


def _most_frequent(counts: Counter[str]) -> str:
    """The most frequent name; the first in alphabetical order on a tie."""
    return min(counts, key=lambda name: (-counts[name], name))


majority_baseline = ArmBaseline(
    "the most frequent tag of each word in train", frequent_tags, seconds_per_text=1e-4, version=2
)
