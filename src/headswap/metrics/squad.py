"""Exact match and F1 of answers, computed as SQuAD's evaluation script does.

Both sides are lower-cased; punctuation, the articles a, an, the and extra white space are removed. An answer is
compared with each right answer and gets the best score. For a question without an answer only an empty answer is right.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from headswap.data.records import SpanExample
from headswap.metrics.intervals import interval_of

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(answer: str) -> str:
    """The answer without case, punctuation, articles and extra white space."""
    return " ".join(ARTICLES.sub(" ", answer.lower().translate(PUNCTUATION)).split())


def exact_match(answer: str, right: Sequence[str]) -> float:
    """1 if the answer is one of the right ones."""
    return float(any(normalised(answer) == normalised(one) for one in right or [""]))


def f1(answer: str, right: Sequence[str]) -> float:
    """The best word overlap with one of the right answers."""
    return max(_overlap(normalised(answer).split(), normalised(one).split()) for one in right or [""])


def _overlap(words: list[str], others: list[str]) -> float:
    if not words or not others:
        return float(words == others)
    shared = sum((Counter(words) & Counter(others)).values())
    return 2 * shared / (len(words) + len(others))


def span_metrics(answers: Sequence[str], examples: Sequence[SpanExample], *, is_final: bool = False) -> dict[str, Any]:
    """Exact match and F1; if some questions have no answer, also F1 of the answerable and the unanswerable ones."""
    right = [[answer.text for answer in example.answers] for example in examples]
    exact = np.array([exact_match(answer, own) for answer, own in zip(answers, right, strict=True)])
    f1_of_each = np.array([f1(answer, own) for answer, own in zip(answers, right, strict=True)])
    has_answer = np.array([bool(own) for own in right])
    metrics: dict[str, Any] = {
        "exact_match": float(exact.mean()),
        "f1": float(f1_of_each.mean()),
        "num_examples": len(examples),
    }
    if not has_answer.all():
        metrics |= {
            "num_unanswerable": int((~has_answer).sum()),
            "f1_unanswerable": float(f1_of_each[~has_answer].mean()),
        }
        metrics |= {"f1_answerable": float(f1_of_each[has_answer].mean()) if has_answer.any() else None}
    if is_final:
        counts = np.stack([f1_of_each, np.ones(len(f1_of_each))], axis=1)
        metrics["interval"] = interval_of("f1", counts, lambda sums: sums[..., 0] / sums[..., 1])
    return metrics
