"""Exact match and F1 of answers, by the rules of SQuAD's own evaluation.

Both sides are lower-cased and lose punctuation, the articles a, an, the, and extra blanks; the best of the right
answers counts. A question without an answer is met by an empty one alone.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence

ARTICLES = re.compile(r"\b(a|an|the)\b")
PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalised(answer: str) -> str:
    """The answer as it is compared."""
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
