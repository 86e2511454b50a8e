"""95 % intervals of a score on one test set: Wilson's for a share of examples, resampling for every other score."""

import math
from collections.abc import Callable

import numpy as np

from headswap.core.random_streams import numpy_stream

NORMAL_95 = 1.959963984540054
NUM_RESAMPLES = 1_000
RESAMPLES_PER_BATCH = 50


def wilson_interval(share: float, count: int) -> tuple[float, float]:
    """The 95 % interval of a share that was counted in `count` independent examples."""
    squared = NORMAL_95**2
    middle = (share + squared / (2 * count)) / (1 + squared / count)
    half = NORMAL_95 / (1 + squared / count) * math.sqrt(share * (1 - share) / count + squared / (4 * count**2))
    return max(0.0, middle - half), min(1.0, middle + half)


def resampled_interval(counts: np.ndarray, score: Callable[[np.ndarray], np.ndarray]) -> tuple[float, float]:
    """The 95 % percentile interval of `score(sums of counts)` over resampled examples (rows of `counts`)."""
    stream = numpy_stream(0, "bootstrap of a test set")
    size = len(counts)
    values = []
    for _ in range(NUM_RESAMPLES // RESAMPLES_PER_BATCH):
        weights = stream.multinomial(size, np.full(size, 1 / size), size=RESAMPLES_PER_BATCH)
        values.append(score(weights @ counts))
    low, high = np.quantile(np.concatenate(values), (0.025, 0.975))
    return float(low), float(high)


def interval_of(
    name: str, counts: np.ndarray, score: Callable[[np.ndarray], np.ndarray], *, is_share: bool = True
) -> dict[str, object]:
    """The interval of a metric, as it is written to a result.

    If all examples are right, or all are wrong, resampling finds no spread. A share then gets an interval of 3 / n
    (the rule of three).
    """
    low, high = resampled_interval(counts, score)
    if is_share and low == high:
        low, high = max(0.0, low - 3 / len(counts)), min(1.0, high + 3 / len(counts))
    return {"metric": name, "low": low, "high": high}


def f1_of_counts(sums: np.ndarray) -> np.ndarray:
    """F1 of (hits, predicted, true) in the last axis; 0 where nothing is true and nothing is predicted."""
    return 2 * sums[..., 0] / np.maximum(1, sums[..., 1] + sums[..., 2])
