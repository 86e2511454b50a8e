"""X and y of an estimator: a column of texts, and classes or numbers.

X is one-dimensional: a list, a NumPy array, or a column of pandas, polars or PyArrow. A table is refused, because
iterating over one gives the names of its columns.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import assert_all_finite, column_or_1d

from headswap.core.errors import InputError, counted, listed
from headswap.data.columns import kind_of, label_of


class TextsError(InputError, ValueError):
    """X or y is not as an estimator can read it. scikit-learn expects a ValueError."""


class NotTextError(InputError, TypeError):
    """X has an element that is not a text. scikit-learn expects a TypeError."""


def texts_of(X: Any, *, name: str) -> list[str]:
    """The texts of X; `name` is that of the estimator, for messages."""
    if isinstance(X, str | bytes):
        raise TextsError(f"X is one string, but {name} expects a column of texts. Put it in a list: [text].")
    if isinstance(X, Mapping) or hasattr(X, "columns") or hasattr(X, "column_names"):
        raise TextsError(f"X is a table, but {name} expects one column of texts, for example X['text'].")
    if hasattr(X, "toarray"):
        raise NotTextError(f"X is a sparse matrix of numbers, but {name} expects a column of texts.")
    if (dimensions := getattr(X, "ndim", 1)) != 1:
        raise TextsError(
            f"X has {dimensions} dimensions, but {name} expects one: a column of texts. "
            "For an array with one column pass X[:, 0] or X.ravel()."
        )
    if not isinstance(X, Iterable) and hasattr(X, "__array__"):
        return texts_of(np.asarray(X), name=name)
    if not isinstance(X, Iterable):
        raise NotTextError(f"X is {kind_of(X)}, but {name} expects a column of texts.")
    texts = list(X.to_pylist() if hasattr(X, "to_pylist") else X)
    if not texts:
        raise TextsError(f"Found array with 0 sample(s): X is empty, but {name} needs a minimum of 1 text.")
    for number, text in enumerate(texts):
        _check_text(text, number, len(texts))
    return [str(text) for text in texts]


def _check_text(text: Any, number: int, count: int) -> None:
    """Refuse what is not a text. Positions count from 0, as those of X do."""
    if isinstance(text, str):
        if not text.strip():
            raise TextsError(f"X[{number}] of {counted(count, 'text')} is blank. Remove it, or give it a text.")
    elif text is None or (isinstance(text, float) and np.isnan(text)) or type(text).__name__ == "NAType":
        raise TextsError(f"X[{number}] of {counted(count, 'text')} is missing (NaN or None). Remove it, or fill it in.")
    else:
        raise NotTextError(f"X[{number}] is {kind_of(text)}, argument must be a string: X is a column of texts.")


def classes_of(y: Any, *, num_texts: int, name: str) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """The sorted classes, the number of the class of each text, and the name of each class in the bundle."""
    values = _target(y, num_texts=num_texts, name=name)
    if values.dtype.kind == "f":
        assert_all_finite(values, input_name="y")
    if missing := [number for number, value in enumerate(values.tolist()) if value is None or value != value]:
        raise TextsError(f"Input y contains NaN or None: y[{missing[0]}] has no class. Remove it, or fill it in.")
    try:
        check_classification_targets(values)
        classes, numbers = np.unique(values, return_inverse=True)
    except TypeError:
        kinds = sorted({kind_of(value) for value in values.tolist()})
        raise TextsError(f"y mixes {' and '.join(kinds)}. Give all classes as one type.") from None
    if len(classes) < 2:
        raise TextsError(f"y has only one class ({classes[0]}). {name} needs at least two classes.")
    found = [label_of(value) for value in classes.tolist()]
    names = [label for label in found if label is not None]
    if len(names) < len(found):
        unusable = classes.tolist()[found.index(None)]
        raise TextsError(f"y has the class {unusable!r}, which is blank, or neither a string nor a number.")
    if len(set(names)) < len(names):
        doubled = [value for value, label in zip(classes.tolist(), names, strict=True) if names.count(label) > 1]
        raise TextsError(f"y has classes that differ only by white space or type: {listed(map(repr, doubled))}.")
    return classes, numbers, names


def numbers_of(y: Any, *, num_texts: int, name: str) -> np.ndarray:
    """The target of a regression, in double precision."""
    values = _target(y, num_texts=num_texts, name=name)
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError) as problem:
        raise TextsError(f"y must have numbers, one per text: {problem}.") from None
    assert_all_finite(numbers, input_name="y")
    return numbers


def _target(y: Any, *, num_texts: int, name: str) -> np.ndarray:
    """y as an array with one value per text."""
    if y is None:
        raise TextsError(f"{name} requires y to be passed, but the target y is None.")
    values = column_or_1d(y.to_pylist() if hasattr(y, "to_pylist") else y, warn=True)
    if len(values) != num_texts:
        raise TextsError(
            f"Found input variables with inconsistent numbers of samples: X has {num_texts:,}, y has {len(values):,}."
        )
    return values
