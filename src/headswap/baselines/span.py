"""Baseline of question answering: the sentence that shares most words with the question."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from headswap.baselines.arm_baseline import CROSS_VALIDATION, ArmBaseline
from headswap.data.records import SpanExample
from headswap.metrics.squad import span_metrics
from headswap.tokens.marks import sentence_positions

WORD = re.compile(r"\w+")


def nearest_sentence(train: Sequence[SpanExample], test: Sequence[SpanExample]) -> dict[str, Any]:
    """Predicts the sentence of the context that shares most words with the question. Nothing is trained."""
    del train
    return span_metrics([find_nearest_sentence(example) for example in test], test, is_final=True)


def nearest_sentences(
    train: Sequence[SpanExample], test: Sequence[SpanExample], labels: Sequence[str], metric: str
) -> tuple[list[str], dict[str, Any]]:
    """The predicted sentences of test, and the score of the same rule on train, which it does not use."""
    del labels
    score = span_metrics([find_nearest_sentence(example) for example in train], train).get(metric)
    return [find_nearest_sentence(example) for example in test], {CROSS_VALIDATION: score}


def find_nearest_sentence(example: SpanExample) -> str:
    """The first sentence of the context with the largest number of the question's words."""
    wanted = set(WORD.findall(example.question.lower()))
    starts = [*sentence_positions(example.context), len(example.context)]
    sentences = [example.context[start:end].strip() for start, end in pairwise(starts)]
    return max(sentences, key=lambda sentence: len(wanted & set(WORD.findall(sentence.lower()))))


nearest_baseline = ArmBaseline(
    "the sentence with most words of the question, untrained",
    nearest_sentences,
    seconds_per_text=3e-4,
)
