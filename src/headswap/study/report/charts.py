"""The charts of a study as data: points, series, titles and axes.

A `Chart` is drawn into the page by chart_svg.py and into files by chart_files.py.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from headswap.core.errors import counted
from headswap.study.setup.answer_file import SINGLE
from headswap.study.setup.arms import SCRATCH
from headswap.study.statistics.budget_words import BudgetWords
from headswap.study.statistics.results import EPOCH_SCORES, NO_BUDGET, Curve, StudyResults
from headswap.study.statistics.score_results import Cell, Comparison

NUM_COLOURS = 12
METRIC_NAMES = {
    "accuracy": "accuracy", "macro_f1": "macro-F1", "r2": "R2", "pearson": "Pearson correlation",
    "spearman": "Spearman correlation", "mse": "MSE", "mae": "MAE", "micro_f1": "micro-F1", "f1": "F1",
    "precision": "precision", "recall": "recall", "exact_match": "exact match",
    "f1_answerable": "F1 (answerable)", "f1_unanswerable": "F1 (unanswerable)",
}  # fmt: skip
EPOCH_TITLES = {
    f"{part}_{name}": (f"{words} {METRIC_NAMES[name]}", METRIC_NAMES[name].split()[0])
    for name in EPOCH_SCORES
    for part, words in (("eval", "validation"), ("train", "training"))
} | {"eval_loss": ("validation loss", "loss")}
"""Title and short name, per metric of a `Curve`."""


@dataclass(frozen=True)
class Point:
    """A value with its interval, and its tooltip."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    tip: str = ""


@dataclass(frozen=True)
class Series:
    """A named line; thin lines are single seeds behind their mean."""

    name: str
    points: Sequence[Point]
    colour: int
    is_thin: bool = False


@dataclass(frozen=True)
class Chart:
    """One chart."""

    id: str
    title: str
    x_title: str
    y_title: str
    series: Sequence[Series]
    is_log_x: bool = False
    is_log_y: bool = False
    line: str | None = None
    """A reference line: `zero` is y = 0, `diagonal` is y = x up to 1, `identity` is y = x with the same range on both
    axes."""
    form: Literal["lines", "points", "bars"] = "lines"
    """`points` are not connected; `bars` start at 0, and the x of a point is the number of its group."""
    names: Sequence[str] = ()
    """Of the groups of bars."""

    def offset_of(self, series: Series) -> float:
        """Horizontal offset of a series with intervals, in steps, so that error bars do not cover each other."""
        with_intervals = [item for item in self.series if any(point.low is not None for point in item.points)]
        return with_intervals.index(series) - (len(with_intervals) - 1) / 2 if series in with_intervals else 0.0

    def limits(self) -> tuple[float, float, float, float]:
        """Lowest and highest x, lowest and highest y, with a margin in y."""
        points = [point for series in self.series for point in series.points]
        xs = [point.x for point in points]
        ys = [y for point in points for y in (point.y, point.low, point.high) if y is not None]
        if self.form == "bars":
            return -0.5, len(self.names) - 0.5, 0.0, max(*ys, 0.1) * 1.04
        if self.line == "identity":
            low, high = min(*xs, *ys), max(*xs, *ys)
            margin = (high - low or 1.0) * 0.04
            return low - margin, high + margin, low - margin, high + margin
        if self.line == "zero":
            ys.append(0.0)
        if self.line == "diagonal":
            xs, ys = [*xs, 1.0], [*ys, 1.0, min(xs)]
        low, high = min(ys), max(ys)
        if self.is_log_y:
            margin = (high / low) ** 0.08
            return min(xs), max(xs), low / margin, high * margin
        margin = (high - low or 0.1) * 0.08
        return min(xs), max(xs), low - margin, high + margin


def colour_of(arms: Sequence[str]) -> dict[str, int]:
    """Fixed colours for the default arms; the others follow."""
    fixed = {"majority": 0, "mean": 0, "nearest sentence": 0, "tfidf": 1, SCRATCH: 2, "pretrained": 3}
    others = [arm for arm in arms if arm not in fixed]
    return fixed | {arm: 4 + number % (NUM_COLOURS - 4) for number, arm in enumerate(others)}


def make_charts(results: StudyResults) -> list[Chart]:
    """Every chart for which there are results."""
    every = [_efficiency(results), _gain(results), *_by_epoch(results), *_pretraining(results), _calibration(results)]
    return [chart for chart in every if any(series.points for series in chart.series)]


def summary_charts(charts: Sequence[Chart], metric: str) -> list[Chart]:
    """Scores by labels, and the epochs of the metric at the largest budget; of another one if no run logged it."""
    found = [chart for chart in charts if chart.id == "efficiency"]
    for name in (metric, "accuracy", "r2"):
        pattern = re.compile(rf"epochs-\d+-{re.escape(EPOCH_TITLES[f'eval_{name}'][1])}")
        if epochs := [chart for chart in charts if pattern.fullmatch(chart.id)]:
            return [*found, epochs[-1]]
    return found


def _efficiency(results: StudyResults) -> Chart:
    colours, metric = colour_of(results.arms), METRIC_NAMES[results.metric]
    series = [
        Series(arm, [_cell_point(cell, results.words) for cell in results.cells if cell.arm == arm], colours[arm])
        for arm in results.arms
    ]
    series = [] if any(budget.labels == NO_BUDGET for budget in results.budgets) else series
    title = f"Test {metric} by number of {results.words.many}"
    return Chart("efficiency", title, _label_axis(results), f"test {metric}", series, is_log_x=True)


def _label_axis(results: StudyResults) -> str:
    return f"{results.words.many} (log scale)"


def _cell_point(cell: Cell, words: BudgetWords) -> Point:
    span = f" ({cell.low:z.3f} to {cell.high:z.3f})" if cell.low is not None else ""
    runs = "one answer per text" if SINGLE in cell.values else counted(cell.count, "seed")
    tip = f"{cell.arm}, {cell.labels:,} {words.many}: {cell.mean:z.3f}{span} ({runs})"
    return Point(cell.labels, cell.mean, cell.low, cell.high, tip)


def _gain(results: StudyResults) -> Chart:
    colours, metric = colour_of(results.arms), METRIC_NAMES[results.metric]
    series = []
    for arm in results.arms:
        rows = [row for row in results.comparisons if row.arm == arm and row.other == SCRATCH and row.labels]
        if rows:
            series.append(Series(f"{arm} - scratch", [_gain_point(row, results.words) for row in rows], colours[arm]))
    title = f"Gain over scratch, paired by seed and {results.unit}"
    return Chart("gain", title, _label_axis(results), f"test {metric}, points", series, is_log_x=True, line="zero")


def _gain_point(row: Comparison, words: BudgetWords) -> Point:
    mean, low, high = (None if value is None else value * 100 for value in (row.mean, row.low, row.high))
    assert mean is not None
    span = f" ({low:+.1f} to {high:+.1f})" if low is not None else ""
    seeds = counted(row.count, "paired seed")
    tip = f"{row.arm} - scratch, {row.labels:,} {words.many}: {mean:+.1f} points{span} ({seeds})"
    return Point(row.labels, mean, low, high, tip)


def _by_epoch(results: StudyResults) -> list[Chart]:
    """The validation scores and the loss per epoch at every budget: single seeds thin, their mean thick."""
    charts: list[Chart] = []
    for budget in results.budgets:
        for metric, (title, short) in EPOCH_TITLES.items():
            curves = [curve for curve in results.curves if (curve.labels, curve.measure) == (budget.labels, metric)]
            colours = colour_of(results.arms)
            series = [line for curve in curves for line in _epoch_series(curve, title, colours[curve.arm])]
            heading = f"{budget.labels:,} {results.words.many}: {title} per epoch"
            id = f"epochs-{budget.labels}-{short}"
            if series and any(chart.id == id and chart.series for chart in charts):  # some arms held nothing out
                id = f"{id}-training"
            charts.append(Chart(id, heading, "epoch (0: before the first step)", title, series))
    return charts


def _epoch_series(curve: Curve, title: str, colour: int) -> list[Series]:
    seeds = [points for points in curve.seeds.values() if points]
    thin = [Series(curve.arm, [Point(*point) for point in points], colour, is_thin=True) for points in seeds]
    mean = [
        Point(epoch, value, tip=f"{curve.arm}, epoch {epoch:g}: {title} {value:.3f} (mean of {len(seeds)})")
        for epoch, value in mean_curve(seeds)
    ]
    return [*(thin if len(seeds) > 1 else []), Series(curve.arm, mean, colour)]


def mean_curve(curves: Sequence[Sequence[tuple[float, float]]]) -> list[tuple[float, float]]:
    """The mean over seeds at every epoch that all of them reached."""
    shortest = min(len(curve) for curve in curves)
    return [(curves[0][index][0], sum(curve[index][1] for curve in curves) / len(curves)) for index in range(shortest)]


def _pretraining(results: StudyResults) -> list[Chart]:
    """Held-out loss and perplexity of every base per epoch."""
    losses, perplexities = [], []
    for number, base in enumerate(results.bases):
        colour = 3 + number % (NUM_COLOURS - 3)
        found: tuple[list[Point], list[Point]] = [], []
        for point in base.curve:
            if point.loss is None or point.perplexity is None:
                continue
            tip = f"{base.name}, epoch {point.epoch:.3g}: loss {point.loss:.3f}, perplexity {point.perplexity:,.1f}"
            found[0].append(Point(point.epoch, point.loss, tip=tip))
            found[1].append(Point(point.epoch, point.perplexity, tip=tip))
        losses.append(Series(base.name, found[0], colour))
        perplexities.append(Series(base.name, found[1], colour))
    x_title = "epochs of the corpus"
    return [
        Chart(
            "pretraining-loss", "Pre-training: held-out loss per epoch", x_title,
            "held-out loss (nats per token)", losses,
        ),
        Chart(
            "pretraining-perplexity", "Pre-training: held-out perplexity per epoch", x_title,
            "held-out perplexity (log scale)", perplexities, is_log_y=True,
        ),
    ]  # fmt: skip


def _calibration(results: StudyResults) -> Chart:
    colours = colour_of(results.arms)
    series = []
    for detail in results.details:
        if detail.arm == "majority" or not detail.bins:
            continue
        points = [
            Point(
                part.confidence, part.accuracy,
                tip=f"{detail.arm}: confidence {part.confidence:.2f}, accuracy {part.accuracy:.2f} "
                f"({part.share * 100:.0f} % of the {results.unit}s)",
            )
            for part in detail.bins
        ]  # fmt: skip
        series.append(Series(detail.arm, points, colours[detail.arm]))
    labels = results.details[0].labels if results.details else NO_BUDGET
    title = "Calibration" if labels == NO_BUDGET else f"Calibration at {labels:,} {results.words.many}"
    return Chart("calibration", title, "confidence", "accuracy", series, line="diagonal")
