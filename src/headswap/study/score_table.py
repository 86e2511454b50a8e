"""The test scores of a study per arm, budget and seed, and the statistics of them: means, comparisons, label worth.

Means and differences are taken over seeds. Differences are paired: at one seed all arms have the same labels in the
same order. The sampling error of the test set is estimated separately, by a bootstrap over test texts.
"""

from collections.abc import Sequence
from dataclasses import asdict, replace

import numpy as np

from headswap.metrics.classification import scores
from headswap.study.arms import BASELINES, SCRATCH
from headswap.study.cell_quality import is_constant, quality_of
from headswap.study.label_worth import catch_up, label_worth
from headswap.study.results import BreakEven, CatchUp, Cell, Comparison, LabelWorth, Verdict
from headswap.study.runs import StudyRuns
from headswap.study.statistics import (
    ALPHA,
    FEWEST_SEEDS_FOR_A_CLAIM,
    bootstrap_interval,
    holm,
    mean_interval,
    paired_difference,
    paired_p_value,
    permutation_p_value,
    seeds_needed,
)

REFERENCES = (SCRATCH, "tfidf")


class ScoreTable:
    """The scores of all runs of a study, computed once; each method returns one kind of result."""

    def __init__(self, study: StudyRuns) -> None:
        self.study = study
        self.scores = {run.folder: scores(run.predictions.probabilities, run.predictions.targets) for run in study.runs}
        self.budgets = [budget.labels for budget in study.budgets]
        self.one_text = max((1 / len(run.predictions.targets) for run in study.runs), default=0.0)
        """The share of one test text, the least spread: a few seeds can have the same score by chance."""

    def values(self, arm: str, labels: int, seeds: Sequence[int] | None = None) -> list[float]:
        """The scores of an arm at a budget, for the given seeds or for all."""
        runs = self.study.by_seed(arm, labels)
        return [self.scores[runs[seed].folder][self.study.metric] for seed in (seeds or sorted(runs))]

    def cells(self) -> list[Cell]:
        """The scores of every arm at every budget."""
        places = [(arm, labels) for arm in self.study.arms for labels in self.budgets]
        return [self._cell(arm, labels) for arm, labels in places if self.study.by_seed(arm, labels)]

    def _cell(self, arm: str, labels: int) -> Cell:
        runs = self.study.by_seed(arm, labels)
        seeds = sorted(runs)
        values = self.values(arm, labels)
        low, high = bootstrap_interval(np.mean([runs[seed].predictions.is_right for seed in seeds], axis=0))
        interval = mean_interval(values)
        if is_constant(list(runs.values())):
            interval = replace(interval, low=None, high=None)
        by_seed = dict(zip(seeds, values, strict=True))
        quality = quality_of(self.study, arm, labels, by_seed)

        def mean(metric: str) -> float:
            return float(np.mean([self.scores[runs[seed].folder][metric] for seed in seeds]))

        return Cell(
            mean=interval.mean,
            low=_clipped(interval.low),
            high=_clipped(interval.high),
            count=interval.count,
            arm=arm,
            labels=labels,
            values=by_seed,
            test_low=low,
            test_high=high,
            mean_accuracy=mean("accuracy"),
            mean_macro_f1=mean("macro_f1"),
            mean_loss=mean("loss"),
            mean_ece=mean("ece"),
            median=quality.median,
            num_collapsed=quality.num_collapsed,
            abstention=quality.abstention,
        )

    def paired_seeds(self, arm: str, other: str, labels: int) -> list[int]:
        """Seeds for which both arms have a run on the same labels."""
        ours, theirs = self.study.by_seed(arm, labels), self.study.by_seed(other, labels)
        # TF-IDF is also trained on the labels that others select on, so only Transformers are compared by checksum.
        return sorted(
            seed
            for seed in ours.keys() & theirs.keys()
            if {arm, other} & set(BASELINES) or ours[seed].rows == theirs[seed].rows
        )

    def comparisons(self) -> list[Comparison]:
        """Every arm against scratch and TF-IDF, paired by seed, Holm-corrected over all comparisons.

        Without scratch and TF-IDF every arm is compared with the first one.
        """
        found = []
        references = [arm for arm in REFERENCES if arm in self.study.arms] or self.study.arms[:1]
        for labels in self.budgets:
            for arm in self.study.arms:
                for other in references:
                    if arm == "majority" or arm == other or (arm == "tfidf" and other == SCRATCH):
                        continue
                    if seeds := self.paired_seeds(arm, other, labels):
                        found.append(self._comparison(arm, other, labels, seeds))
        adjusted = holm([comparison.p for comparison in found])
        num_comparisons = sum(p is not None for p in adjusted)
        return [self._corrected(comparison, p, num_comparisons) for comparison, p in zip(found, adjusted, strict=True)]

    def _comparison(self, arm: str, other: str, labels: int, seeds: list[int]) -> Comparison:
        """One comparison before Holm's correction."""
        ours, theirs = self.values(arm, labels, seeds), self.values(other, labels, seeds)
        left, right = self.study.by_seed(arm, labels), self.study.by_seed(other, labels)
        differences = [left[s].predictions.is_right.astype(float) - right[s].predictions.is_right for s in seeds]
        low, high = bootstrap_interval(np.mean(differences, axis=0))
        return Comparison(
            **asdict(paired_difference(ours, theirs, least_spread=self.one_text)),
            arm=arm,
            other=other,
            labels=labels,
            p=paired_p_value(ours, theirs, least_spread=self.one_text),
            p_permutation=permutation_p_value(ours, theirs),
            test_low=low,
            test_high=high,
            p_holm=None,
            num_comparisons=0,
            verdict="no claim",
        )

    def _corrected(self, comparison: Comparison, p_holm: float | None, num_comparisons: int) -> Comparison:
        """A comparison with its corrected p and its verdict."""
        verdict, needed = _verdict(comparison, p_holm), None
        if verdict == "none":
            seeds = self.paired_seeds(comparison.arm, comparison.other, comparison.labels)
            ours, theirs = (self.values(arm, comparison.labels, seeds) for arm in (comparison.arm, comparison.other))
            differences = [one - two for one, two in zip(ours, theirs, strict=True)]
            # The level that Holm's correction applies to the smallest p of the family.
            needed = seeds_needed(differences, alpha=ALPHA / num_comparisons, least_spread=self.one_text)
        return replace(comparison, p_holm=p_holm, num_comparisons=num_comparisons, verdict=verdict, seeds_needed=needed)

    def label_worth(self) -> list[LabelWorth]:
        """How many times as many labels scratch needs for the score of an arm."""
        if SCRATCH not in self.study.arms or len(self.budgets) < 2:
            return []
        scratch_seeds = [set(self.study.by_seed(SCRATCH, labels)) for labels in self.budgets]
        found = []
        for arm in self._pretrained_arms():
            for labels in self.budgets:
                seeds = sorted(set.intersection(set(self.study.by_seed(arm, labels)), *scratch_seeds))
                if seeds:
                    curve = {budget: self.values(SCRATCH, budget, seeds) for budget in self.budgets}
                    worth = label_worth(self.values(arm, labels, seeds), curve, labels=labels)
                    found.append(LabelWorth(**asdict(worth), arm=arm))
        return found

    def catch_up(self) -> list[CatchUp]:
        """The number of labels at which scratch catches up with an arm, from the seeds that all budgets have."""
        found = []
        for arm in self._pretrained_arms():
            cells = [set(self.study.by_seed(name, labels)) for name in (arm, SCRATCH) for labels in self.budgets]
            seeds = sorted(set.intersection(*cells))
            if not seeds:
                continue
            ours, theirs = (
                {labels: self.values(name, labels, seeds) for labels in self.budgets} for name in (arm, SCRATCH)
            )
            if (point := catch_up(ours, theirs)) is not None:
                found.append(CatchUp(**asdict(point), arm=arm))
        return found

    def break_even(self) -> list[BreakEven]:
        """Pre-training seconds per saved label, for every label worth whose interval is above 1."""
        found = []
        for worth in self.label_worth():
            bases = self.study.bases.get(worth.arm, [])
            if not bases or worth.low is None or worth.low <= 1:
                continue
            seconds = float(np.mean([base.result["seconds"] for base in bases]))
            times = worth.largest if worth.is_beyond else worth.times
            saved = ((times or worth.low) - 1) * worth.labels
            found.append(
                BreakEven(
                    arm=worth.arm,
                    labels=worth.labels,
                    base_seconds=seconds,
                    saved=saved,
                    saved_low=(worth.low - 1) * worth.labels,
                    is_beyond=worth.is_beyond,
                    seconds_a_label=seconds / saved,
                )
            )
        return found

    def _pretrained_arms(self) -> list[str]:
        return [arm for arm in self.study.arms if arm not in (*BASELINES, SCRATCH)]


def _verdict(comparison: Comparison, p_holm: float | None) -> Verdict:
    if comparison.count < FEWEST_SEEDS_FOR_A_CLAIM or p_holm is None:
        return "no claim"
    if p_holm >= ALPHA:
        return "none"
    return "better" if comparison.mean > 0 else "worse"


def _clipped(bound: float | None) -> float | None:
    """The bound of an interval of a score, which Student's t can put outside 0 and 1."""
    return None if bound is None else min(1.0, max(0.0, bound))
