"""Means over seeds with Student's t intervals, for figures that have no value per test text, such as a loss."""

import json
import math
from collections.abc import Sequence
from pathlib import Path

from scipy.special import stdtrit

from headswap.study.statistics.significance import ALPHA, FEWEST_SEEDS_FOR_A_CLAIM, Interval


def mean_interval(values: Sequence[float]) -> Interval:
    """The mean with its 95 % interval over seeds; without an interval below 3 seeds."""
    count = len(values)
    mean = math.fsum(values) / count
    if count < FEWEST_SEEDS_FOR_A_CLAIM:
        return Interval(mean, None, None, count)
    error = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (count - 1) / count)
    half = float(stdtrit(count - 1, 1 - ALPHA / 2)) * error
    return Interval(mean, mean - half, mean + half, count)


def paired_difference(values: Sequence[float], others: Sequence[float]) -> Interval:
    """The mean of the differences of two arms, paired by seed, with its 95 % interval."""
    return mean_interval([value - other for value, other in zip(values, others, strict=True)])


def in_points(gain: Interval) -> str:
    """A difference of scores in points, with its interval if it has one: `+1.2 (-0.3 to +2.7)`."""
    if gain.low is None or gain.high is None:
        return f"{100 * gain.mean:+.1f}"
    return f"{100 * gain.mean:+.1f} ({100 * gain.low:+.1f} to {100 * gain.high:+.1f})"


def study_values(file: Path) -> dict[tuple[str, int], dict[str, float]]:
    """The scores of the `results.json` of a study by arm and number of labels, and then by seed."""
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    return {(cell["arm"], cell["labels"]): cell["values"] for cell in cells}
