"""What a cell of a study has beside its mean: the median if runs collapse, and coverage and accuracy with abstention.

A run *collapses* if its score is at or below that of the majority class although the best seed of the same arm and
budget is clearly above it: by more than two standard errors of the majority score on the test set. A mean over such
seeds describes none of them, so the median is shown beside it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headswap.metrics.abstention import LIMITS, AbstentionPoint, abstention_point
from headswap.metrics.classification import scores
from headswap.study.setup.arms import BASELINES
from headswap.study.statistics.budget_words import LABELS, BudgetWords
from headswap.study.statistics.runs import ScoredRun, StudyRuns

STANDARD_ERRORS = 2.0
ROUNDING = 1e-9
"""Scores that differ by less are equal: the score of the majority class is a mean over seeds."""


@dataclass(frozen=True)
class CellQuality:
    """The part of a cell that does not depend on the choice of tests and intervals."""

    median: float | None
    """Median over seeds, where runs collapse."""
    num_collapsed: int
    abstention: Sequence[AbstentionPoint]
    """At each limit the coverage and the accuracy of the answered texts, over all seeds; empty without scores."""


def quality_of(study: StudyRuns, arm: str, labels: int, values: Mapping[int, float]) -> CellQuality:
    """The quality of one arm at one budget, whose scores per seed are `values`."""
    runs = list(study.by_seed(arm, labels).values())
    if not runs[0].predictions.has_classes:
        return CellQuality(None, 0, [])
    majority = majority_score(study, labels)
    num_collapsed = 0 if arm in BASELINES else count_collapsed(list(values.values()), majority, _num_test(runs))
    median = float(np.median(list(values.values()))) if num_collapsed else None
    if not all(run.predictions.has_scores for run in runs):
        return CellQuality(median, num_collapsed, [])
    probabilities = np.concatenate([run.classes.probabilities for run in runs])
    targets = np.concatenate([run.classes.targets for run in runs])
    return CellQuality(median, num_collapsed, [abstention_point(probabilities, targets, limit) for limit in LIMITS])


def count_collapsed(values: Sequence[float], majority: float, num_test: int) -> int:
    """How many scores are at or below the majority's, if the best one is clearly above it; otherwise 0."""
    error = math.sqrt(majority * (1 - majority) / num_test)
    if max(values) <= majority + STANDARD_ERRORS * error:
        return 0
    return sum(value <= majority + ROUNDING for value in values)


def majority_score(study: StudyRuns, labels: int) -> float:
    """The score of the arm `majority` at a budget; without this arm, of the largest class of the test set."""
    runs = list(study.by_seed("majority", labels).values())
    if not runs:
        first = study.runs[0].classes
        largest = np.bincount(first.targets, minlength=len(first.labels)).argmax()
        constant = np.tile(np.eye(len(first.labels))[largest], (len(first.targets), 1))
        return scores(constant, first.targets)[study.metric]
    return float(np.mean([scores(run.classes.probabilities, run.classes.targets)[study.metric] for run in runs]))


def collapse_sentences(cells: Sequence[Any], words: BudgetWords = LABELS) -> list[str]:
    """One sentence per cell with collapsed runs."""
    return [
        f"{cell.num_collapsed} of {cell.count} runs of {cell.arm}{_at(cell.labels, words)} "
        f"{'is' if cell.num_collapsed == 1 else 'are'} at or below the majority class, while its best run has "
        f"{max(cell.values.values()):.3f}: the median is {cell.median:.3f}, the mean {cell.mean:.3f}."
        for cell in cells
        if cell.num_collapsed
    ]


def _at(labels: int, words: BudgetWords) -> str:
    return f" at {labels:,} {words.many}" if labels else ""


def _num_test(runs: Sequence[ScoredRun]) -> int:
    return len(runs[0].predictions.text_ids)
