"""Stratified subsets and splits: every class keeps its share.

Both are pure functions of the labels and a seed.
"""

from collections.abc import Sequence

import numpy as np

from headswap.core.errors import InputError, SettingError
from headswap.core.random_streams import numpy_stream
from headswap.data.records import Labelled


def stratified_order(labels: Sequence[str], stream: np.random.Generator) -> list[int]:
    """All indices in an order of which every prefix has (nearly) the class shares of the whole set.

    The first indices are one example per class, largest class first. After them, example j of the n examples of a class
    has the position (j + 1/2) / n (Sainte-Laguë). The method of largest remainders is not used: with it a larger subset
    can have fewer examples of a class than a smaller one (the Alabama paradox), but subsets must be nested.
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
    """Indices of `size` examples: a stratified sample, with at least one example per class if `size` allows it.

    With the same seed, a smaller subset is a prefix of a larger one. `strata` replace labels that are not classes.
    """
    if not 1 <= size <= len(examples):
        raise SettingError(
            f"{size:,} examples are requested, but {_origin(examples)} has {len(examples):,}. Request fewer."
        )
    labels = [example.label for example in examples] if strata is None else strata
    return stratified_order(labels, numpy_stream(seed, "subset"))[:size]


def stratified_split(
    examples: Sequence[Labelled], fraction: float, seed: int, *, strata: Sequence[str] | None = None
) -> tuple[list[int], list[int]]:
    """Indices of the remaining and of the held-out examples, each in file order.

    Counts per class are by the method of largest remainders. A class with two or more examples has at least one on both
    sides; a single example is not held out. `strata` replace labels that are not classes.
    """
    if not 0 < fraction < 1:
        raise SettingError(f"A share of {fraction} cannot be held out. It must be between 0 and 1.")
    labels = [example.label for example in examples] if strata is None else strata
    _, classes, counts = np.unique(np.asarray(labels, dtype=object), return_inverse=True, return_counts=True)
    exact = counts * fraction
    held = np.floor(exact).astype(np.int64)
    missing = round(len(examples) * fraction) - int(held.sum())
    held[np.argsort(held - exact, kind="stable")[: max(missing, 0)]] += 1
    held = np.where(counts >= 2, np.clip(held, 1, counts - 1), 0)
    if not held.any():
        raise InputError(f"{_origin(examples)} cannot be split: no label has two examples. Add examples.")
    stream = numpy_stream(seed, "split")
    is_held = np.zeros(len(examples), dtype=bool)
    for number, count in enumerate(held):
        is_held[stream.permutation(np.flatnonzero(classes == number))[:count]] = True
    return np.flatnonzero(~is_held).tolist(), np.flatnonzero(is_held).tolist()


def _origin(examples: Sequence[Labelled]) -> str:
    return examples[0].source if examples else "the labelled set"
