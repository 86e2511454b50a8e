"""The charts of a study: what they show.

A `Chart` is plain data and is drawn twice: into the page (inline_svg.py) and as files (figures.py). Axis titles are
part of the data, so none is forgotten.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from headswap.core.errors import counted
from headswap.study.arms import SCRATCH

Values = dict[str, Any]
NUM_COLOURS = 12
METRIC_NAMES = {"accuracy": "accuracy", "macro_f1": "macro-F1"}


@dataclass(frozen=True)
class Point:
    """A value with its interval, and what is said of it on hover."""

    x: float
    y: float
    low: float | None = None
    high: float | None = None
    tip: str = ""


@dataclass(frozen=True)
class Series:
    """A named line; thin ones are single seeds behind their mean."""

    name: str
    points: Sequence[Point]
    colour: int
    is_thin: bool = False


@dataclass(frozen=True)
class Chart:
    """One picture."""

    id: str
    title: str
    x_title: str
    y_title: str
    series: Sequence[Series]
    is_log_x: bool = False
    is_log_y: bool = False
    line: str | None = None
    """`zero`: a line at zero; `diagonal`: where both axes agree."""

    def place_of(self, series: Series) -> float:
        """How many steps aside a line with intervals stands, so that whiskers do not hide each other."""
        spread = [item for item in self.series if any(point.low is not None for point in item.points)]
        return spread.index(series) - (len(spread) - 1) / 2 if series in spread else 0.0

    def limits(self) -> tuple[float, float, float, float]:
        """x from, x to, y from, y to, with room to breathe."""
        points = [point for series in self.series for point in series.points]
        xs = [point.x for point in points]
        ys = [y for point in points for y in (point.y, point.low, point.high) if y is not None]
        if self.line == "zero":
            ys.append(0.0)
        if self.line == "diagonal":
            xs, ys = [*xs, 1.0], [*ys, 1.0, min(xs)]
        low, high = min(ys), max(ys)
        if self.is_log_y:
            room = (high / low) ** 0.08
            return min(xs), max(xs), low / room, high * room
        room = (high - low or 0.1) * 0.08
        return min(xs), max(xs), low - room, high + room


def colour_of(arms: Sequence[str]) -> dict[str, int]:
    """The arms that every study has keep their colours; others follow."""
    fixed = {"majority": 0, "tfidf": 1, SCRATCH: 2, "pretrained": 3}
    others = [arm for arm in arms if arm not in fixed]
    return fixed | {arm: 4 + place % (NUM_COLOURS - 4) for place, arm in enumerate(others)}


def make_charts(results: Values) -> list[Chart]:
    """Every chart that the numbers allow."""
    every = [_efficiency(results), _differences(results), *_by_epoch(results), *_pretraining(results)]
    return [chart for chart in [*every, _reliability(results)] if chart and any(s.points for s in chart.series)]


def _efficiency(results: Values) -> Chart:
    colours, name = colour_of(results["arms"]), METRIC_NAMES[results["metric"]]
    series = []
    for arm in results["arms"]:
        cells = [cell for cell in results["cells"] if cell["arm"] == arm]
        points = [
            Point(
                cell["labels"], cell["mean"], cell["low"], cell["high"],
                f"{arm}, {cell['labels']:,} labels: {_number(cell)} ({counted(cell['count'], 'seed')})",
            )
            for cell in cells
        ]  # fmt: skip
        series.append(Series(arm, points, colours[arm]))
    title = f"Test {name} by number of labels"
    return Chart("efficiency", title, "labels (logarithmic)", f"test {name}", series, is_log_x=True)


def _differences(results: Values) -> Chart | None:
    colours = colour_of(results["arms"])
    series = []
    for arm in results["arms"]:
        rows = [row for row in results["comparisons"] if row["arm"] == arm and row["other"] == SCRATCH]
        points = [
            Point(
                row["labels"], row["mean"] * 100,
                None if row["low"] is None else row["low"] * 100, None if row["high"] is None else row["high"] * 100,
                f"{arm} - scratch, {row['labels']:,} labels: {_points(row)} ({counted(row['count'], 'pair')})",
            )
            for row in rows
        ]  # fmt: skip
        if points:
            series.append(Series(f"{arm} - scratch", points, colours[arm]))
    if not series:
        return None
    name = METRIC_NAMES[results["metric"]]
    title = "Gain over scratch, paired seed by seed"
    return Chart("gain", title, "labels (logarithmic)", f"test {name}, points", series, is_log_x=True, line="zero")


def _by_epoch(results: Values) -> list[Chart]:
    """Accuracy and loss of every budget by epoch, each seed thin and the mean thick."""
    colours, charts = colour_of(results["arms"]), []
    names = {
        "eval_accuracy": ("validation accuracy", "accuracy"), "train_accuracy": ("training accuracy", "accuracy"),
        "eval_loss": ("validation loss", "loss"),
    }  # fmt: skip
    for budget in results["budgets"]:
        for measure, (title, short) in names.items():
            curves = [
                curve for curve in results["curves"]
                if curve["labels"] == budget["labels"] and curve["measure"] == measure
            ]  # fmt: skip
            series = []
            for curve in curves:
                arm = curve["arm"]
                seeds = [points for points in curve["seeds"].values() if points]
                thin = [Series(arm, [Point(*point) for point in points], colours[arm], True) for points in seeds]
                of = f"mean of {len(seeds)}"
                mean = [
                    Point(epoch, value, None, None, f"{arm}, epoch {epoch:g}: {title} {value:.3f} ({of})")
                    for epoch, value in mean_curve(seeds)
                ]
                series += [*(thin if len(seeds) > 1 else []), Series(arm, mean, colours[arm])]
            if series:
                id = f"epochs-{budget['labels']}-{short}"
                heading = f"{budget['labels']:,} labels: {title} by epoch"
                charts.append(Chart(id, heading, "epoch (0 is before the first step)", title, series))
    return charts


def mean_curve(curves: Sequence[Sequence[tuple[float, float]]]) -> list[tuple[float, float]]:
    """The mean over seeds at every epoch that all of them reached."""
    shortest = min(len(curve) for curve in curves)
    return [(curves[0][index][0], sum(curve[index][1] for curve in curves) / len(curves)) for index in range(shortest)]


def _pretraining(results: Values) -> list[Chart]:
    """Held-out loss and perplexity of every base by epoch."""
    charts = []
    for measure, axis, is_log in (("loss", "nats a token", False), ("perplexity", "logarithmic", True)):
        series = []
        for number, base in enumerate(results["bases"]):
            points = [
                Point(
                    line["epoch"], line[measure], None, None,
                    f"{base['name']}, epoch {line['epoch']:.3g}: loss {line['loss']:.3f}, "
                    f"perplexity {line['perplexity']:,.1f}",
                )
                for line in base["curve"]
                if line["loss"] is not None and line["perplexity"] is not None
            ]  # fmt: skip
            series.append(Series(base["name"], points, 3 + number % (NUM_COLOURS - 3)))
        title, y_title = f"Pre-training: held-out {measure} by epoch", f"held-out {measure}, {axis}"
        charts.append(Chart(f"pretraining-{measure}", title, "epoch of the corpus", y_title, series, is_log_y=is_log))
    return charts


def _reliability(results: Values) -> Chart | None:
    colours = colour_of(results["arms"])
    series = []
    for detail in results["details"]:
        if detail["arm"] == "majority":
            continue
        points = [
            Point(
                part["confidence"], part["accuracy"], None, None,
                f"{detail['arm']}: where it is {part['confidence']:.2f} sure it is right in {part['accuracy']:.2f} "
                f"({part['share'] * 100:.0f} % of the texts)",
            )
            for part in detail["bins"]
        ]  # fmt: skip
        series.append(Series(detail["arm"], points, colours[detail["arm"]]))
    title = f"Calibration with {results['details'][0]['labels']:,} labels"
    return Chart("calibration", title, "how sure the model is", "share that is right", series, line="diagonal")


def _number(cell: Values) -> str:
    span = f" ({cell['low']:.3f} to {cell['high']:.3f})" if cell["low"] is not None else ""
    return f"{cell['mean']:.3f}{span}"


def _points(row: Values) -> str:
    span = f" ({row['low'] * 100:+.1f} to {row['high'] * 100:+.1f})" if row["low"] is not None else ""
    return f"{row['mean'] * 100:+.1f} points{span}"
