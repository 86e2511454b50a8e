"""TF-IDF features for the linear baselines of all tasks, and how their linear models are fitted.

A linear model on words and word pairs is hard to beat with few labels, so a table without it would mislead.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from headswap.core.errors import HeadswapError
from headswap.data.records import Labelled, whole_text

MAX_FOLDS = 5
MAX_ROWS_TO_ROTATE = 5_000
FEW_OUTPUTS = 10
SOLVER = "newton-cg"
TOLERANCE = 1e-7  # newton-cg's default of 1e-4 stops a point of accuracy short on 1,600 IMDb reviews
MANY_CLASSES = 300
MOST_COEFFICIENTS = 10_000_000  # the solver holds about ten arrays of this size, 80 MB each


class TooManyClassesError(HeadswapError):
    """A linear model has too many classes to be fitted in memory."""


def check_size(num_classes: int, number: int, *, what: str, model: str = "TF-IDF + logistic regression") -> None:
    """Raise if a model with many classes has too many coefficients: the solver needs gigabytes for them."""
    if num_classes > MANY_CLASSES and num_classes * number > MOST_COEFFICIENTS:
        raise TooManyClassesError(
            f"{model} is not fitted: {num_classes:,} classes x {number:,} {what} are more than "
            f"{MOST_COEFFICIENTS:,} numbers, which need gigabytes of memory. Fewer classes or texts make it possible."
        )


def joined_text(example: Labelled) -> str:
    """The text of an example; the two texts of a pair are joined, so a linear model sees the words of both."""
    return whole_text(example, separator="\n")


def groups_of(train: Sequence[Any]) -> list[str] | None:
    """The group of each example, which cross-validation must not separate; None if they have none."""
    groups = [example.group for example in train if getattr(example, "group", None) is not None]
    return groups if groups and len(groups) == len(train) else None


def folds_without_strata(size: int, groups: Sequence[str] | None) -> list[tuple[np.ndarray, np.ndarray]]:
    """(training, held-out) rows of each fold; a group is on one side of a fold if there are at least two groups."""
    from sklearn.model_selection import GroupKFold, KFold

    if groups is None or len(set(groups)) < 2:
        return list(KFold(min(MAX_FOLDS, size), shuffle=True, random_state=0).split(np.zeros(size)))
    return list(GroupKFold(min(MAX_FOLDS, len(set(groups)))).split(np.zeros(size), groups=groups))


def tfidf_features(train: Sequence[str], test: Sequence[str], *, num_outputs: int = 1) -> tuple[Any, Any]:
    """TF-IDF of words and word pairs for the texts of train and test, fitted on train; sparse, or rotated.

    Both give the same model of `num_outputs` values per text; the faster one is chosen.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=r"(?u)\b\w+\b")
    train_features, test_features = vectorizer.fit_transform(train), vectorizer.transform(test)
    is_sparse = len(train) > MAX_ROWS_TO_ROTATE or _is_faster_sparse(train_features, num_outputs)
    return (train_features, test_features) if is_sparse else rotate_features(train_features, test_features)


def _is_faster_sparse(features: Any, num_outputs: int) -> bool:
    """Whether a model is fitted faster to the sparse matrix than to the rotated one (benchmarks/tfidf_features.py).

    A step costs about the entries of the matrix and five times the coefficients; rotated, its entries. With many
    outputs these are matrix products, which are faster per entry.
    """
    rows, columns = features.shape
    if num_outputs * columns > MOST_COEFFICIENTS:
        return False
    factor = 2 if num_outputs <= FEW_OUTPUTS else 16
    return rows**2 > factor * (features.nnz + 5 * columns)


def rotate_features(train: Any, test: Any) -> tuple[np.ndarray, np.ndarray]:
    """The same texts in as many dimensions as there are training texts.

    A penalty on squared weights does not change under rotation, so the fitted model is the same. With few texts,
    hundreds of thousands of word pairs and many classes it is fitted a hundred times faster.
    """
    values, axes = np.linalg.eigh((train @ train.T).toarray())
    is_kept = values > values[-1] * 1e-12
    scale = np.sqrt(values[is_kept])
    return axes[:, is_kept] * scale, (test @ train.T).toarray() @ (axes[:, is_kept] / scale)
