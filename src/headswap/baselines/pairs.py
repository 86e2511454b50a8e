"""Baseline of pairs of texts: a linear model of what the two texts share and where they differ.

The features of a pair are word overlap, lengths, the cosine of the two TF-IDF vectors (of words, and of parts of
words), their product, and their difference, its positive and its negative part apart. TF-IDF of the joined texts has
none of that: it does not know which text a word is from.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from headswap.baselines.classify import ClassifyBaseline
from headswap.baselines.linear import METRIC, chosen_logistic
from headswap.baselines.regress import RegressBaseline, chosen_ridge
from headswap.baselines.tfidf import check_size
from headswap.core.errors import InputError
from headswap.data.records import Example

WORD = re.compile(r"\w+")
WEIGHT_OF_NUMBERS = 0.3
"""Standard deviation of overlap, lengths and cosines among the features; TF-IDF vectors have length 1."""
CHARACTERS = (3, 4)  # in a part of a word
NAME = "the linear model of pairs"


def pair_probabilities(
    train: Sequence[Example], test: Sequence[Example], labels: Sequence[str], metric: str = METRIC
) -> tuple[np.ndarray, dict[str, Any]]:
    """Logistic regression on the features of pairs; its strength C is chosen by cross-validation on train alone."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        features = pair_features(train, test)
        check_size(len({example.label for example in train}), features[0].shape[1], what="features", model=NAME)
        return chosen_logistic(*features, train, labels, metric)


def pair_values(
    train: Sequence[Example], test: Sequence[Example], labels: Sequence[str], metric: str
) -> tuple[np.ndarray, dict[str, Any]]:
    """Ridge regression on the features of pairs; its penalty is chosen by cross-validation on train alone."""
    return chosen_ridge(*pair_features(train, test), train, labels, metric)


def pair_features(train: Sequence[Example], test: Sequence[Example]) -> tuple[Any, Any]:
    """The features of the pairs of train and test as sparse rows; everything is fitted on train."""
    from scipy.sparse import csr_matrix, hstack
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = TfidfVectorizer(sublinear_tf=True, token_pattern=r"(?u)\b\w+\b")
    characters = TfidfVectorizer(sublinear_tf=True, analyzer="char_wb", ngram_range=CHARACTERS)
    texts = [text for example in train for text in _texts(example)]
    vectors, parts = [], []
    for kind in (words, characters):
        kind.fit(texts)
    for examples in (train, test):
        first, second = (list(side) for side in zip(*map(_texts, examples), strict=True))
        one, two = words.transform(first), words.transform(second)
        difference = one - two
        vectors.append([one.multiply(two), difference.maximum(0), (-difference).maximum(0)])
        cosines = [_cosines(one, two), _cosines(characters.transform(first), characters.transform(second))]
        parts.append(np.column_stack([[overlap_numbers(*pair) for pair in zip(first, second, strict=True)], *cosines]))
    mean, deviation = parts[0].mean(axis=0), parts[0].std(axis=0)
    scale = np.where(deviation > 1e-9, deviation, 1.0)
    numbers = [csr_matrix((part - mean) / scale * WEIGHT_OF_NUMBERS) for part in parts]
    train_features, test_features = (
        hstack([number, *of_words]).tocsr() for number, of_words in zip(numbers, vectors, strict=True)
    )
    return train_features, test_features


def overlap_numbers(first: str, second: str) -> list[float]:
    """Shares of words and word pairs that both texts have, lengths, and whether the words are the same."""
    one, two = (WORD.findall(text.lower()) for text in (first, second))
    words, others = set(one), set(two)
    shared = len(words & others)
    pairs, other_pairs = set(pairwise(one)), set(pairwise(two))
    return [
        shared / max(1, len(words | others)),
        shared / max(1, len(words)),
        shared / max(1, len(others)),
        shared / max(1, min(len(words), len(others))),
        len(pairs & other_pairs) / max(1, len(pairs | other_pairs)),
        np.log1p(len(one)),
        np.log1p(len(two)),
        abs(len(one) - len(two)) / max(1, len(one), len(two)),
        np.log1p(len(words - others)),
        np.log1p(len(others - words)),
        float(one == two),
    ]


def _cosines(one: Any, two: Any) -> np.ndarray:
    return np.asarray(one.multiply(two).sum(axis=1))


def _texts(example: Example) -> tuple[str, str]:
    if example.text_pair is None:
        raise InputError(
            f"{example.source}, line {example.line}: the baseline 'pairs' needs two texts (--text-pair-column)."
        )
    return example.text, example.text_pair


pairs_baseline = ClassifyBaseline(
    "overlap, cosine and difference of the two texts, logistic regression",
    pair_probabilities,
    seconds_per_text=4e-3,
    version=2,
    reads_pairs=True,
)
ridge_baseline = RegressBaseline(
    "overlap, cosine and difference of the two texts, ridge regression",
    pair_values,
    seconds_per_text=4e-3,
    version=3,
    reads_pairs=True,
)
