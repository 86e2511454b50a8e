"""Scores on parts of the test set for tasks other than classification: per label, type, range of values, length.

They are shown next to the errors of a study (error_analysis.py has those of classifiers). The arm is the primary one at
the fullest budget, next to the best baseline there. The score on a part has a 95 % interval like those of the table.
Parts of a regression have the mean absolute error: R2 and correlations depend on the spread of the values in a part.
Parts of questions have F1. A regression also has the values of one run, for a chart.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from headswap.data.checks import WORD
from headswap.study.setup.arms import is_constant
from headswap.study.statistics.error_analysis import length_ranges
from headswap.study.statistics.error_results import ErrorAnalysis, PredictedValues, SliceScore, TestSlice
from headswap.study.statistics.groups import groups_of_test
from headswap.study.statistics.runs import StudyRuns
from headswap.study.statistics.significance import crossed_mean, texts_only
from headswap.study.statistics.unit_scores import grouped_values, least_error, micro_f1_values, unit_scores

NUM_RANGES = 4
MOST_DECIMALS = 8
"""Smaller numbers are written with an exponent."""
MOST_VALUES = 500
"""Values of a chart; of a larger test set rows at equal distances are taken."""


class Part(NamedTuple):
    """A part of the test set, and the values of a run on it, one per example that can be in it."""

    by: str
    name: str
    inside: np.ndarray
    """Which examples are counted."""
    rows: np.ndarray
    """Which examples the values belong to."""
    values: Callable[[Any], np.ndarray]


def analyse_parts(study: StudyRuns, baselines: dict[int, str]) -> ErrorAnalysis | None:
    """The scores of the primary arm on parts of the test set; None for predictions without such parts."""
    first, labels = study.runs[0].predictions, study.fullest_budget
    if first.kind not in PARTS:
        return None
    trained = [arm for arm in study.arms if not is_constant(arm, study.task) and study.by_seed(arm, labels)]
    if not trained:
        return None
    arm = study.primary if study.primary in trained else trained[-1]
    best = baselines.get(labels)
    arms = [arm, best] if best in trained and best != arm else [arm]
    parts = [*PARTS[first.kind](first), *_lengths(study)]
    if not parts:  # every question has an answer, and the texts are not known
        return None
    return ErrorAnalysis(
        arm=arm,
        labels=labels,
        num_runs=len(study.by_seed(arm, labels)),
        slices=[
            TestSlice(part.by, part.name, int(part.inside.sum()), [_score(study, one, labels, part) for one in arms])
            for part in parts
        ],
        confusions=[],
        errors=[],
        possible_label_errors=[],
        metric=OWN_METRIC[first.kind],
        predicted=_predicted(study, arm, labels) if first.kind == "values" else None,
    )


def _predicted(study: StudyRuns, arm: str, labels: int) -> PredictedValues:
    """The values of the run with the first seed."""
    runs = study.by_seed(arm, labels)
    seed = min(runs)
    found: Any = runs[seed].predictions
    size = len(found.targets)
    rows = np.unique(np.linspace(0, size - 1, min(size, MOST_VALUES)).round().astype(int))
    return PredictedValues(seed, rows.tolist(), found.targets[rows].tolist(), found.values[rows].tolist())


def _score(study: StudyRuns, arm: str, labels: int, part: Part) -> SliceScore:
    """The score of an arm on a part, over all its seeds."""
    values = np.stack([part.values(run.predictions) for run in study.by_seed(arm, labels).values()])
    groups = groups_of_test(study)
    if groups is not None:
        numbers = np.unique(groups[part.rows], return_inverse=True)[1]
        values = np.stack([grouped_values(row, numbers) for row in values])
    first: Any = study.runs[0].predictions
    has_unit = first.kind == "values"  # an error has the unit of the labels, and no upper limit
    least = least_error(first, int(part.inside.sum()))
    found = crossed_mean(values, least_error=least)
    interval = found.interval() if found.can_be_tested else texts_only(values, least_error=least)
    if interval.low is None or interval.high is None or not np.ptp(values):
        return SliceScore(arm, interval.mean, None, None)
    high = interval.high if has_unit else min(1.0, interval.high)
    return SliceScore(arm, interval.mean, max(0.0, interval.low), high)


def _lengths(study: StudyRuns) -> Iterator[Part]:
    """Ranges of lengths in words."""
    if study.texts:
        words = np.array([len(WORD.findall(text)) for text in study.texts])
        for name, inside in length_ranges(words):
            yield Part("words", name, inside, inside, _on_rows(study.runs[0].predictions.kind, study.metric, inside))


def _on_rows(kind: str, metric: str, inside: np.ndarray) -> Callable[[Any], np.ndarray]:
    if kind == "values":
        return lambda predictions: np.abs(predictions.values - predictions.targets)[inside]
    if kind == "tags":  # whether tags are entities is a property of the whole test set
        return lambda predictions: micro_f1_values(predictions.counts[inside])
    if kind == "answers":
        return lambda predictions: predictions.f1[inside]
    return lambda predictions: unit_scores(predictions.take(inside), metric)


def _classes(first: Any) -> Iterator[Part]:
    """The F1 of every label or type alone, the most frequent ones first."""
    counts = first.counts
    has_class = counts[:, :, 2] > 0
    every = np.ones(len(counts), dtype=bool)
    for number in np.argsort(-has_class.sum(axis=0), kind="stable").tolist():
        if has_class[:, number].any():
            yield Part(first.part_noun, first.classes[number], has_class[:, number], every, _of_class(number))


def _of_class(number: int) -> Callable[[Any], np.ndarray]:
    return lambda predictions: micro_f1_values(predictions.counts[:, [number]])


def _answers(first: Any) -> Iterator[Part]:
    """The questions with and without an answer, if there are both."""
    if first.has_answer.any() and not first.has_answer.all():
        for name, inside in (("answerable", first.has_answer), ("unanswerable", ~first.has_answer)):
            yield Part("questions:", name, inside, inside, _on_rows(first.kind, "f1", inside))


def _values(first: Any) -> Iterator[Part]:
    """Ranges of the true value with about the same number of examples."""
    for name, inside in value_ranges(first.targets):
        yield Part("value", name, inside, inside, _on_rows(first.kind, "mae", inside))


def value_ranges(values: np.ndarray) -> list[tuple[str, np.ndarray]]:
    """Four ranges of values with about the same number of examples; fewer if many examples have the same value."""
    edges = np.unique(np.quantile(values, np.linspace(0, 1, NUM_RANGES + 1)[1:], method="higher"))
    found, is_left = [], np.ones(len(values), dtype=bool)
    shown = number_format(values.tolist())
    for edge in edges.tolist():
        inside = is_left & (values <= edge)
        low = float(values[inside].min())
        found.append((f"{shown(low)} to {shown(edge)}" if low < edge else shown(edge), inside))
        is_left &= ~inside
    return found


def number_format(values: Sequence[float]) -> Callable[[float], str]:
    """How to write numbers of a range: without an exponent, with four digits of the range; plain if that is exact."""
    spread = max(values) - min(values)
    decimals = 3 - math.floor(math.log10(spread)) if spread > 0 else 4
    if decimals > MOST_DECIMALS:
        return lambda value: f"{value:.6g}"

    def shown(value: float) -> str:
        text = f"{value:,.{max(0, decimals)}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text

    return shown


PARTS: dict[str, Callable[[Any], Iterator[Part]]] = {
    "label sets": _classes,
    "tags": _classes,
    "answers": _answers,
    "values": _values,
}
"""Per kind of predictions: its parts, from the predictions of one run."""
OWN_METRIC = {"label sets": "f1", "tags": "f1", "answers": "f1", "values": "mae"}
"""The metric of the parts of a kind, whatever the metric of the study."""
