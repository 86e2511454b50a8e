"""Choosing examples so that every class keeps its share.

Both choices are pure functions of the labels and a seed. What the examples are is left to labelled.py and datasets.py.
"""

from collections.abc import Sequence

import numpy as np

from headswap.core.errors import InputError, SettingError
from headswap.core.random_streams import numpy_stream
from headswap.data.records import Labelled


def stratified_order(labels: Sequence[str], stream: np.random.Generator) -> list[int]:
    """All indices in an order whose every beginning has the classes in (nearly) the shares of the whole.

    One of each class comes first, the largest class leading. Then the j-th of the n examples of a class stands at
    (j + 1/2) / n, which is Sainte-Laguë's rule. The method of largest remainders would not do: under it a larger choice
    may hold fewer of a class than a smaller one (the Alabama paradox), and choices are to be nested.
    """
    _, classes, counts = np.unique(np.asarray(labels, dtype=object), return_inverse=True, return_counts=True)
    rank = np.empty(len(labels), dtype=np.int64)
    for number, count in enumerate(counts):
        rank[np.flatnonzero(classes == number)] = stream.permutation(count)
    size = counts[classes]
    place = np.where(rank == 0, -1.0, (rank + 0.5) / size)
    return np.lexsort((classes, -size, place)).tolist()


def stratified_subset(
    examples: Sequence[Labelled], size: int, seed: int, *, strata: Sequence[str] | None = None
) -> list[int]:
    """Indices of `size` examples: classes in their shares, at least one of each where `size` allows it.

    At the same seed a larger choice begins with the smaller one. `strata` stand in for labels that are no classes.
    """
    if not 1 <= size <= len(examples):
        raise SettingError(f"{size:,} examples were asked for; {_origin(examples)} has {len(examples):,}.")
    labels = [example.label for example in examples] if strata is None else strata
    return stratified_order(labels, numpy_stream(seed, "subset"))[:size]


def stratified_split(
    examples: Sequence[Labelled], fraction: float, seed: int, *, strata: Sequence[str] | None = None
) -> tuple[list[int], list[int]]:
    """Indices of the rest and of the held-out part, each in file order.

    Counts go by largest remainders; a class of two or more gives at least one to either side, a single example stays
    in the rest. `strata` stand in for labels that are no classes.
    """
    if not 0 < fraction < 1:
        raise SettingError(f"A share of {fraction} cannot be held out; it must lie between 0 and 1.")
    labels = [example.label for example in examples] if strata is None else strata
    _, classes, counts = np.unique(np.asarray(labels, dtype=object), return_inverse=True, return_counts=True)
    exact = counts * fraction
    held = np.floor(exact).astype(np.int64)
    missing = round(len(examples) * fraction) - int(held.sum())
    held[np.argsort(held - exact, kind="stable")[: max(missing, 0)]] += 1
    held = np.where(counts >= 2, np.clip(held, 1, counts - 1), 0)
    if not held.any():
        raise InputError(f"Nothing of {_origin(examples)} can be held out: no label has two examples.")
    stream = numpy_stream(seed, "split")
    is_held = np.zeros(len(examples), dtype=bool)
    for number, count in enumerate(held):
        is_held[stream.permutation(np.flatnonzero(classes == number))[:count]] = True
    return np.flatnonzero(~is_held).tolist(), np.flatnonzero(is_held).tolist()


def _origin(examples: Sequence[Labelled]) -> str:
    return examples[0].source if examples else "the labelled set"
