"""The test scores of a study per arm, budget and seed, and their statistics: means, comparisons, label worth.

Every score is a matrix of seeds x test texts. Differences are paired by seed (at one seed all arms have the same
labels in the same order) and by text. Intervals and tests are over seeds and texts (significance.py). With 3 or more
bases the rows of a matrix are means per base, because runs that share a base are not independent; bases with more runs
weigh more.

Three families of tests are planned, and Holm's correction is applied within each: the primary arm against scratch over
all budgets (one test), the primary arm against scratch per budget, and the primary arm against the best baseline per
budget. All other comparisons are exploratory and form a fourth family.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from headswap.baselines.arm_baseline import CROSS_VALIDATION
from headswap.study.setup.answer_file import SINGLE
from headswap.study.setup.arm_bases import is_existing_base
from headswap.study.setup.arms import BASELINES, SCRATCH, is_constant
from headswap.study.statistics.cell_quality import quality_of
from headswap.study.statistics.design import discussed_arm, is_planned
from headswap.study.statistics.groups import groups_of_test
from headswap.study.statistics.label_worth import catch_up, label_worth
from headswap.study.statistics.runs import ScoredRun, StudyRuns
from headswap.study.statistics.score_results import (
    BEST_BASELINE,
    BreakEven,
    CatchUp,
    Cell,
    Comparison,
    Family,
    LabelStep,
    LabelWorth,
    OverallDifference,
    Verdict,
)
from headswap.study.statistics.significance import (
    ALPHA,
    FEWEST_SEEDS_FOR_A_CLAIM,
    CrossedMean,
    crossed_mean,
    holm,
    mean_over_texts,
    seeds_needed,
    texts_only,
)
from headswap.study.statistics.unit_scores import bounds_of, least_error, unit_scores

FEWEST_BASES = 3
"""From this number of bases on, claims are about other bases too, and the test is over bases."""
WITHOUT_SCORES = "the answers have no scores"
"""Why an arm has no log loss and no calibration error."""


class ScoreTable:
    """The scores of all runs of a study, computed once; each method returns one kind of result."""

    def __init__(self, study: StudyRuns) -> None:
        self.study = study
        self.scores = {run.folder: run.predictions.scores() for run in study.runs}
        groups = groups_of_test(study)
        self.units = {run.folder: unit_scores(run.predictions, study.metric, groups=groups) for run in study.runs}
        self.least_error = least_error(study.runs[0].predictions)
        self.budgets = [budget.labels for budget in study.budgets]
        self.baselines = self._best_baselines()
        """The best baseline per budget."""

    def _best_baselines(self) -> dict[int, str]:
        """Chosen by the mean cross-validation score on the budget's labels; without scores, the last one listed.

        A constant baseline without a score, such as the mean where correlations are compared, is left out.
        """
        found = {}
        for labels in self.budgets:
            means: dict[str, float | None] = {}
            for name in BASELINES:
                runs = self.study.by_seed(name, labels).values()
                known = [run.result[CROSS_VALIDATION] for run in runs if run.result.get(CROSS_VALIDATION) is not None]
                if runs:
                    means[name] = float(np.mean(known)) if len(known) == len(runs) else None
            if all(is_constant(name, self.study.task) for name in means):
                continue
            means = {
                name: mean for name, mean in means.items() if mean is not None or not is_constant(name, self.study.task)
            }
            complete = {name: mean for name, mean in means.items() if mean is not None}
            found[labels] = max(complete, key=complete.__getitem__) if len(complete) == len(means) else list(means)[-1]
        return found

    def cells(self) -> list[Cell]:
        """The scores of every arm at every budget."""
        places = [(arm, labels) for arm in self.study.arms for labels in self.budgets]
        return [self._cell(arm, labels) for arm, labels in places if self.study.by_seed(arm, labels)]

    def _cell(self, arm: str, labels: int) -> Cell:
        runs = self.study.by_seed(arm, labels)
        seeds = sorted(runs)
        values, _ = self._matrix(arm, labels, seeds)
        found = crossed_mean(values, least_error=self.least_error)
        interval = found.interval() if found.can_be_tested else texts_only(values, least_error=self.least_error)
        has_interval = not is_constant(arm, self.study.task)
        by_seed = {seed: self.scores[runs[seed].folder][self.study.metric] for seed in seeds}
        quality = quality_of(self.study, arm, labels, by_seed)
        bounds = bounds_of(self.study.metric)
        return Cell(
            mean=interval.mean,
            low=_clipped(interval.low, bounds) if has_interval else None,
            high=_clipped(interval.high, bounds) if has_interval else None,
            count=len(seeds),
            arm=arm,
            labels=labels,
            values=by_seed,
            over="seeds and texts" if found.can_be_tested else "texts",
            median=quality.median,
            num_collapsed=quality.num_collapsed,
            abstention=quality.abstention,
            **self._means(list(runs.values())),
        )

    def _means(self, runs: Sequence[ScoredRun]) -> dict[str, Any]:
        """The fields of a cell that have the means over seeds of the other metrics of its task."""

        def mean(metric: str) -> float:
            return float(np.mean([self.scores[run.folder][metric] for run in runs]))

        if not runs[0].predictions.has_classes:
            return {"measures": {name: mean(name) for name in self.scores[runs[0].folder]}}
        has_scores = all(run.predictions.has_scores for run in runs)
        return {
            "mean_accuracy": mean("accuracy"),
            "mean_macro_f1": mean("macro_f1"),
            "mean_loss": mean("loss") if has_scores else None,
            "mean_ece": mean("ece") if has_scores else None,
            "without_scores": None if has_scores else WITHOUT_SCORES,
        }

    def paired_seeds(self, arm: str, other: str, labels: int) -> list[int]:
        """Seeds for which both arms have a run on the same labels."""
        ours, theirs = self.study.by_seed(arm, labels), self.study.by_seed(other, labels)
        if SINGLE in ours or SINGLE in theirs:  # one answer per text is paired with every seed
            return _common_seeds([set(ours), set(theirs)])
        # The rows that another system was trained on are not known.
        return sorted(
            seed
            for seed in ours.keys() & theirs.keys()
            if ours[seed].is_external or theirs[seed].is_external or self._have_same_labels(ours[seed], theirs[seed])
        )

    def _have_same_labels(self, ours: ScoredRun, theirs: ScoredRun) -> bool:
        """Whether two runs of one seed may use the same labels; arms may hold out different parts of them."""
        if self.study.recipe is not None:  # the plan of a study gives all arms the same labels at one seed
            return True
        if {ours.arm, theirs.arm} & set(BASELINES):  # also trained on the labels that others select on
            return ours.labelled == theirs.labelled
        return ours.rows == theirs.rows or (ours.labelled is not None and ours.labelled == theirs.labelled)

    def _matrix(
        self, arm: str, labels: int, seeds: Sequence[int], *, rows_of: tuple[str, int] | None = None
    ) -> tuple[np.ndarray, int | None]:
        """The scores of an arm, seeds x texts; or bases x texts, and the number of bases, if there are 3 or more.

        The mean is that of the seeds in both cases. `rows_of` names the arm and the budget whose bases count, for the
        other side of a comparison.
        """
        bases = [self._run(*(rows_of or (arm, labels)), seed).base for seed in seeds]
        values = np.stack([self.units[self._run(arm, labels, seed).folder] for seed in seeds])
        counts = Counter(bases)
        if None in counts or len(counts) < FEWEST_BASES:
            return values, None
        mean, rows = values.mean(axis=0), []
        for base, count in counts.items():
            of_base = values[[one == base for one in bases]].mean(axis=0)
            # Bases with more runs weigh more, so that the mean of the rows is that of the seeds.
            rows.append(mean + count * len(counts) / len(seeds) * (of_base - mean))
        return np.stack(rows), len(counts)

    def _difference(self, arm: str, other: str, labels: int, seeds: Sequence[int]) -> tuple[np.ndarray, int | None]:
        ours, num_bases = self._matrix(arm, labels, seeds)
        theirs, _ = self._matrix(other, labels, seeds, rows_of=(arm, labels))
        return ours - theirs, num_bases

    def _of_difference(self, found: CrossedMean, num_seeds: int) -> dict[str, Any]:
        """The interval of a difference of two scores, within the differences that are possible."""
        interval, (lowest, highest) = found.interval(), bounds_of(self.study.metric)
        possible = (lowest - highest, highest - lowest)
        low, high = (_clipped(bound, possible) for bound in (interval.low, interval.high))
        return {"mean": interval.mean, "low": low, "high": high, "count": num_seeds}

    def overall(self) -> OverallDifference | None:
        """The primary arm against scratch on average over all budgets; None with one budget, which is tested itself."""
        arm = self.study.primary if is_planned(self.study.designs) else None
        if arm is None or SCRATCH not in self.study.arms:
            return None
        paired = {labels: self.paired_seeds(arm, SCRATCH, labels) for labels in self.budgets}
        budgets = [labels for labels in self.budgets if paired[labels]]
        seeds = sorted(set.intersection(*(set(paired[labels]) for labels in budgets))) if budgets else []
        if len(budgets) < 2 or not seeds:
            return None
        parts = [self._difference(arm, SCRATCH, labels, seeds) for labels in budgets]
        found = crossed_mean(np.mean([values for values, _ in parts], axis=0), least_error=self.least_error)
        return OverallDifference(
            **self._of_difference(found, len(seeds)),
            arm=arm,
            other=SCRATCH,
            budgets=budgets,
            num_bases=parts[0][1],
            p=found.p_value(),
            verdict=_verdict(found, found.p_value()),
            one_answer=(arm,) if SINGLE in self.study.by_seed(arm, budgets[0]) else (),
        )

    def last_step(self) -> LabelStep | None:
        """The arm that "What next" is about at its largest budget minus the same arm at the budget before."""
        with_runs = {run.arm for run in self.study.runs}
        arm = discussed_arm(self.study.primary, [name for name in self.study.arms if name in with_runs])
        if arm is None or is_constant(arm, self.study.task):
            return None
        budgets = [labels for labels in self.budgets if self.study.by_seed(arm, labels)]
        if len(budgets) < 2:
            return None
        before, last = budgets[-2:]
        seeds = sorted(set(self.study.by_seed(arm, before)) & set(self.study.by_seed(arm, last)) - {SINGLE})
        if len(seeds) < FEWEST_SEEDS_FOR_A_CLAIM:
            return None
        (ours, _), (theirs, _) = (self._matrix(arm, labels, seeds) for labels in (last, before))
        found = crossed_mean(ours - theirs, least_error=self.least_error).interval()
        return LabelStep(**asdict(found) | {"count": len(seeds)}, arm=arm, from_labels=before, labels=last)

    def comparisons(self) -> list[Comparison]:
        """Every arm against scratch and the best baseline, per budget; the primary arm also against existing bases.

        These are installed and adapted bases, public checkpoints and bases in folders. With a reference every arm is
        compared with it, and without scratch and baselines with the first arm.
        """
        found: list[tuple[Comparison, CrossedMean]] = []
        for labels in self.budgets:
            others = [SCRATCH] if SCRATCH in self.study.arms else []
            others += [self.baselines[labels]] if labels in self.baselines else []
            others = [self.study.reference] if self.study.reference is not None else others or self.study.arms[:1]
            bases = [arm for arm in self.study.arms if is_existing_base(arm) or arm in self.study.given_bases]
            bases = [arm for arm in bases if arm not in others]
            for arm in self.study.arms:
                is_primary = arm == self.study.primary and self.study.reference is None
                for other in [*others, *(bases if is_primary else [])]:
                    is_mirrored = arm in bases and other == self.study.primary and self.study.reference is None
                    if (arm in BASELINES and self.study.reference is None) or arm == other or is_mirrored:
                        continue
                    if seeds := self.paired_seeds(arm, other, labels):
                        found.append(self._comparison(arm, other, labels, seeds))
        results: dict[int, Comparison] = {}
        for family in ("scratch", "baseline", "exploratory"):
            members = [place for place, (comparison, _) in enumerate(found) if comparison.family == family]
            adjusted = holm([found[place][0].p for place in members])
            num_comparisons = sum(p is not None for p in adjusted)
            for place, p_holm in zip(members, adjusted, strict=True):
                results[place] = _corrected(*found[place], p_holm, num_comparisons)
        return [results[place] for place in range(len(found))]

    def _comparison(self, arm: str, other: str, labels: int, seeds: list[int]) -> tuple[Comparison, CrossedMean]:
        """One comparison before Holm's correction."""
        values, num_bases = self._difference(arm, other, labels, seeds)
        single = tuple(name for name in (arm, other) if SINGLE in self.study.by_seed(name, labels))
        test = mean_over_texts if len(single) == 2 else crossed_mean
        found = test(values, least_error=self.least_error)
        interval = self._of_difference(found, len(seeds))
        comparison = Comparison(
            **interval,
            arm=arm,
            other=other,
            labels=labels,
            num_bases=num_bases,
            p=found.p_value(),
            family=self._family(arm, other),
            p_holm=None,
            num_comparisons=0,
            verdict="no claim",
            over="texts" if found.is_over_texts else "seeds and texts",
            one_answer=single,
        )
        return comparison, found

    def _family(self, arm: str, other: str) -> Family:
        if arm != self.study.primary or not is_planned(self.study.designs):
            return "exploratory"
        return "scratch" if other == SCRATCH else "baseline" if other in BASELINES else "exploratory"

    def error_rate(self, comparisons: Sequence[Comparison], overall: OverallDifference | None) -> float:
        """Upper limit of the probability of a false statement among the planned tests: .05 per family."""
        families = {row.family for row in comparisons if row.p is not None} - {"exploratory"}
        return ALPHA * (len(families) + (overall is not None and overall.p is not None))

    def label_worth(self, comparisons: Sequence[Comparison]) -> list[LabelWorth]:
        """How many times as many labels scratch and the best baseline need, where a gain over them is significant."""
        found = []
        for row in comparisons:
            is_reference = row.other == SCRATCH or row.other == self.baselines.get(row.labels)
            if row.verdict != "better" or not is_reference or len(self.budgets) < 2:
                continue
            curve = {
                labels: SCRATCH if row.other == SCRATCH else self.baselines[labels]
                for labels in self.budgets
                if row.other == SCRATCH or labels in self.baselines
            }
            known = [set(self.study.by_seed(name, labels)) for labels, name in curve.items()]
            seeds = _common_seeds([set(self.study.by_seed(row.arm, row.labels)), *known])
            if not seeds:
                continue
            place = (row.arm, row.labels)
            other = {labels: self._matrix(name, labels, seeds, rows_of=place)[0] for labels, name in curve.items()}
            ours = self._matrix(*place, seeds)[0]
            worth = label_worth(ours, other, labels=row.labels, least_error=self.least_error)
            reference = SCRATCH if row.other == SCRATCH else BEST_BASELINE
            found.append(LabelWorth(**asdict(worth) | {"count": len(seeds)}, arm=row.arm, other=reference))
        return found

    def catch_up(self, comparisons: Sequence[Comparison]) -> list[CatchUp]:
        """The number of labels at which scratch catches up with an arm, from the seeds that all budgets have.

        Only for arms whose gain over scratch at the smallest budget is significant.
        """
        first = [row for row in comparisons if row.other == SCRATCH and row.labels == min(self.budgets)]
        gains = {row.arm for row in first if row.verdict == "better"}
        found = []
        for arm in [arm for arm in self._pretrained_arms() if arm in gains]:
            cells = [set(self.study.by_seed(name, labels)) for name in (arm, SCRATCH) for labels in self.budgets]
            seeds = _common_seeds(cells)
            if not seeds:
                continue
            ours, theirs = (
                {labels: self._matrix(name, labels, seeds, rows_of=(arm, labels))[0] for labels in self.budgets}
                for name in (arm, SCRATCH)
            )
            if (point := catch_up(ours, theirs, least_error=self.least_error)) is not None:
                found.append(CatchUp(**asdict(point), arm=arm))
        return found

    def _run(self, arm: str, labels: int, seed: int) -> ScoredRun:
        """The run of a seed, or the only one of a system with one answer per text."""
        runs = self.study.by_seed(arm, labels)
        return runs[seed] if seed in runs else runs[SINGLE]

    def break_even(self, worths: Sequence[LabelWorth]) -> list[BreakEven]:
        """Pre-training seconds per saved label, for every label worth whose interval is above 1."""
        found = []
        for worth in worths:
            bases = self.study.bases.get(worth.arm, [])
            if not bases or worth.low is None or worth.low <= 1:
                continue
            seconds = float(np.mean([base.result["seconds"] for base in bases]))
            times = worth.largest if worth.is_beyond else worth.times
            saved = ((times or worth.low) - 1) * worth.labels
            found.append(
                BreakEven(
                    arm=worth.arm,
                    other=worth.other,
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


def _corrected(comparison: Comparison, found: CrossedMean, p_holm: float | None, num_comparisons: int) -> Comparison:
    """A comparison with its corrected p and its verdict."""
    verdict = _verdict(found, p_holm)
    # The level that Holm's correction applies to the smallest p of the family.
    needed = seeds_needed(found, alpha=ALPHA / num_comparisons) if verdict == "none" else None
    return replace(comparison, p_holm=p_holm, num_comparisons=num_comparisons, verdict=verdict, seeds_needed=needed)


def _verdict(found: CrossedMean, p: float | None) -> Verdict:
    if p is None:
        return "no claim"
    if p >= ALPHA:
        return "none"
    return "better" if found.mean > 0 else "worse"


def _common_seeds(cells: Sequence[set[int]]) -> list[int]:
    """Seeds that all cells have; a cell with one answer per text goes with any seed."""
    with_seeds = [cell for cell in cells if SINGLE not in cell]
    return sorted(set.intersection(*with_seeds)) if with_seeds else [SINGLE] if cells else []


def _clipped(bound: float | None, bounds: tuple[float, float]) -> float | None:
    """The bound of an interval of a score, which Student's t can put outside the possible scores."""
    return None if bound is None else min(bounds[1], max(bounds[0], bound))
