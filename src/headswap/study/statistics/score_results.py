"""The scores of a study, the comparisons between its arms, and what a label is worth: what score_table.py computes."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from headswap.metrics.abstention import AbstentionPoint
from headswap.study.statistics.label_worth import CatchUpPoint, Worth
from headswap.study.statistics.significance import Interval

Verdict = Literal["better", "worse", "none", "no claim"]
"""Of a comparison: a significant gain or loss, no significant difference, or no test (few seeds, or one group)."""
Family = Literal["scratch", "baseline", "exploratory"]
"""Comparisons that are corrected together: the primary arm against scratch, against the best baseline, all others."""
BEST_BASELINE = "best baseline"


@dataclass(frozen=True, kw_only=True)
class Cell(Interval):
    """The test scores of one arm at one budget: their mean with its 95 % interval over seeds and test texts."""

    arm: str
    labels: int
    values: Mapping[int, float]
    """Score per seed."""
    over: Literal["seeds and texts", "texts"]
    """What the interval covers: with fewer than 3 seeds, and with one answer per text, only the sample of texts."""
    mean_accuracy: float | None = None
    mean_macro_f1: float | None = None
    mean_loss: float | None = None
    mean_ece: float | None = None
    without_scores: str | None = None
    """Why there are no log loss, calibration error and abstention; None if there are."""
    median: float | None = None
    """Median over seeds, where runs collapse (cell_quality.py)."""
    num_collapsed: int = 0
    abstention: Sequence[AbstentionPoint] = ()
    measures: Mapping[str, float] = field(default_factory=dict)
    """Of a task other than classification: the means over seeds of all its metrics."""

    def as_json(self) -> dict[str, Any]:
        """One entry of `cells`; it has the fields of a classifier, or `measures`."""
        of_classes = ("mean_accuracy", "mean_macro_f1", "mean_loss", "mean_ece", "without_scores", "abstention")
        left_out = of_classes if self.measures else ("measures",)
        values = {"arm": self.arm, "labels": self.labels} | asdict(self)
        return {name: value for name, value in values.items() if name not in left_out}


@dataclass(frozen=True, kw_only=True)
class Comparison(Interval):
    """One arm minus another at one budget, paired by seed and by test text; its 95 % interval is over both."""

    arm: str
    other: str
    labels: int
    num_bases: int | None
    """The number of bases if there are 3 or more: then the rows of the test are means per base, not seeds."""
    p: float | None
    """Of the test over seeds and texts; None with too few seeds."""
    family: Family
    p_holm: float | None
    num_comparisons: int
    """Comparisons in its family."""
    verdict: Verdict
    seeds_needed: tuple[int | None, int | None] | None = None
    """Where no difference is shown: the fewest and the most seeds that would show it with 80 % power (bases, if
    `num_bases` is a number). None inside: more than 1,000."""
    over: Literal["seeds and texts", "texts"] = "seeds and texts"
    """What test and interval cover."""
    one_answer: Sequence[str] = ()
    """The arms of the two that gave one answer per text: their own variation is not covered, only that of the texts
    and of the seeds of the other arm."""

    def as_json(self) -> dict[str, Any]:
        """One entry of `comparisons`; only one without a significant difference has `seeds_needed`."""
        values = {"arm": self.arm, "other": self.other, "labels": self.labels} | asdict(self)
        return values if self.verdict == "none" else {k: v for k, v in values.items() if k != "seeds_needed"}


@dataclass(frozen=True, kw_only=True)
class OverallDifference(Interval):
    """The primary arm minus scratch, on average over all budgets: the first planned test of a study."""

    arm: str
    other: str
    budgets: Sequence[int]
    num_bases: int | None
    p: float | None
    verdict: Verdict
    one_answer: Sequence[str] = ()
    """As in `Comparison`."""


@dataclass(frozen=True, kw_only=True)
class LabelStep(Interval):
    """What an arm gained between its two largest budgets, paired by seed and by text."""

    arm: str
    from_labels: int
    labels: int


@dataclass(frozen=True, kw_only=True)
class LabelWorth(Worth):
    """The label worth of one arm at one budget, where its gain over the other arm is significant."""

    arm: str
    other: str
    """`scratch`, or `best baseline`: the baseline that was chosen at each budget."""

    def as_json(self) -> dict[str, Any]:
        """One entry of `label_worth`."""
        return {"arm": self.arm, "other": self.other} | asdict(self)


@dataclass(frozen=True, kw_only=True)
class CatchUp(CatchUpPoint):
    """The number of labels at which scratch catches up with one arm."""

    arm: str

    def as_json(self) -> dict[str, Any]:
        """One entry of `catch_up`."""
        return {"arm": self.arm} | asdict(self)


@dataclass(frozen=True)
class BreakEven:
    """Pre-training time per label that it saves: pre-training pays off if a label takes longer to make."""

    arm: str
    other: str
    labels: int
    base_seconds: float
    saved: float
    saved_low: float
    is_beyond: bool
    """Whether the other arm does not reach the score with any budget, so that `saved` is a lower bound."""
    seconds_a_label: float
