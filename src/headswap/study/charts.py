"""The charts of a study: what they show, and how they are drawn into a page.

A `Chart` is plain data and is drawn twice: here as inline SVG whose colours follow the page (light or dark) and whose
points tell their values on hover, and in figures.py as files. Axis titles are part of the data, so none is forgotten.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from headswap.study.arms import BASELINES, SCRATCH

Values = dict[str, Any]
WIDTH, HEIGHT = 480, 300
LEFT, RIGHT, TOP, BOTTOM = 76, 10, 12, 46
DODGE = 6  # between whiskers of one budget
MARKERS = ("circle", "square", "triangle", "diamond", "cross")
NUM_COLOURS = 8
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
                f"{arm}, {cell['labels']:,} labels: {_number(cell)} ({cell['count']} seeds)",
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
                f"{arm} - scratch, {row['labels']:,} labels: {_points(row)} ({row['count']} pairs)",
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


def svg(chart: Chart) -> str:
    """A chart as inline SVG; its colours are the page's, its points tell their values."""
    frame = _Frame(chart)
    parts = [
        f'<svg class="chart" id="chart-{chart.id}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(chart.title)}">',
        *frame.axes(),
    ]
    for series in sorted(chart.series, key=lambda item: not item.is_thin):
        parts += frame.series(series)
    return "\n".join([*parts, "</svg>"])


class _Frame:
    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self.x0, self.x1, self.y0, self.y1 = chart.limits()

    def x(self, value: float) -> float:
        if self.x1 == self.x0:
            return (LEFT + WIDTH - RIGHT) / 2
        share = (
            (math.log(value) - math.log(self.x0)) / (math.log(self.x1) - math.log(self.x0))
            if self.chart.is_log_x
            else (value - self.x0) / (self.x1 - self.x0)
        )
        inset = 22
        return LEFT + inset + share * (WIDTH - LEFT - RIGHT - 2 * inset)

    def y(self, value: float) -> float:
        scale = math.log if self.chart.is_log_y else float
        share = (scale(value) - scale(self.y0)) / (scale(self.y1) - scale(self.y0))
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def axes(self) -> list[str]:
        chart, bottom = self.chart, HEIGHT - BOTTOM
        parts = []
        values = log_ticks(self.y0, self.y1) if chart.is_log_y else ticks(self.y0, self.y1)
        for value, told in zip(values, tick_names(values), strict=True):
            y = self.y(value)
            parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{told}</text>')
        values = (
            sorted({point.x for series in chart.series for point in series.points})
            if chart.is_log_x
            else [value for value in ticks(self.x0, self.x1) if self.x0 <= value <= self.x1]
        )
        for value, told in zip(values, tick_names(values), strict=True):
            x = self.x(value)
            parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 5}"/>')
            parts.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 19}" text-anchor="middle">{told}</text>')
        if chart.line == "zero":
            y = self.y(0)
            parts.append(f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        if chart.line == "diagonal":
            low, high = max(self.x0, self.y0), min(self.x1, self.y1)
            ends = f'x1="{self.x(low):.1f}" y1="{self.y(low):.1f}" x2="{self.x(high):.1f}" y2="{self.y(high):.1f}"'
            parts.append(f'<line class="rule" {ends}/>')
        middle = (LEFT + WIDTH - RIGHT) / 2
        parts.append(
            f'<text class="axis" x="{middle}" y="{HEIGHT - 8}" text-anchor="middle">{escape(chart.x_title)}</text>'
        )
        centre = (TOP + bottom) / 2
        parts.append(
            f'<text class="axis" x="14" y="{centre}" text-anchor="middle" transform="rotate(-90 14 {centre})">'
            f"{escape(chart.y_title)}</text>"
        )
        return parts

    def series(self, series: Series) -> list[str]:
        aside = DODGE * self.chart.place_of(series)
        places = [(self.x(point.x) + aside, self.y(point.y)) for point in series.points]
        path = " ".join(f"{'M' if not index else 'L'}{x:.1f} {y:.1f}" for index, (x, y) in enumerate(places))
        kind = "thin" if series.is_thin else "thick"
        parts = [f'<path class="{kind} c{series.colour}" d="{path}"/>'] if len(places) > 1 else []
        if series.is_thin:
            return parts
        for point, (x, y) in zip(series.points, places, strict=True):
            if point.low is not None and point.high is not None:
                low, high = self.y(point.low), self.y(point.high)
                whisker = f"M{x - 4:.1f} {low:.1f}h8M{x - 4:.1f} {high:.1f}h8M{x:.1f} {low:.1f}V{high:.1f}"
                parts.append(f'<path class="whisker c{series.colour}" d="{whisker}"/>')
            told = escape(point.tip)
            parts.append(
                f'<g class="point c{series.colour}" tabindex="0" data-tip="{told}"><title>{told}</title>'
                f'<circle class="hit" cx="{x:.1f}" cy="{y:.1f}" r="11"/>{_marker(series.colour, x, y)}</g>'
            )
        return parts


def _marker(colour: int, x: float, y: float, size: float = 4.5) -> str:
    """Colours differ in shape too, for those who cannot tell them apart and on paper."""
    kind = MARKERS[colour % len(MARKERS)]
    if kind == "square":
        return f'<rect class="mark" x="{x - size:.1f}" y="{y - size:.1f}" width="{2 * size}" height="{2 * size}"/>'
    if kind == "triangle":
        d = f"M{x:.1f} {y - size - 1:.1f}L{x + size + 1:.1f} {y + size:.1f}H{x - size - 1:.1f}Z"
        return f'<path class="mark" d="{d}"/>'
    if kind == "diamond":
        r = size + 1.5
        return f'<path class="mark" d="M{x:.1f} {y - r:.1f}l{r} {r}l-{r} {r}l-{r} -{r}Z"/>'
    if kind == "cross":
        s = size
        return f'<path class="mark cross" d="M{x - s:.1f} {y - s:.1f}l{2 * s} {2 * s}m0 -{2 * s}l-{2 * s} {2 * s}"/>'
    return f'<circle class="mark" cx="{x:.1f}" cy="{y:.1f}" r="{size}"/>'


def legend(chart: Chart) -> list[tuple[str, str]]:
    """(name, marker as SVG) of every line that is not thin."""
    entries = {series.name: series.colour for series in chart.series if not series.is_thin and series.points}
    return [
        (name, f'<svg class="key c{colour}" viewBox="0 0 16 16">{_marker(colour, 8, 8)}</svg>')
        for name, colour in entries.items()
    ]


def ticks(low: float, high: float, *, most: int = 6) -> list[float]:
    """Round numbers inside a range."""
    step = 10 ** math.floor(math.log10((high - low) / most))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= most)
    first = math.ceil(low / step - 1e-9)
    return [round(number * step, 10) for number in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers inside a range that is drawn on a logarithmic scale."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [factor * 10.0**power for power in powers for factor in (1, 2, 5) if low <= factor * 10.0**power <= high]


def tick_names(values: Sequence[float]) -> list[str]:
    """All with as many decimals as the one that needs most."""
    decimals = max((len(f"{value:g}".partition(".")[2]) for value in values if abs(value) < 1_000), default=0)
    return [f"{value:,.{decimals}f}" for value in values]


def _number(cell: Values) -> str:
    span = f" ({cell['low']:.3f} to {cell['high']:.3f})" if cell["low"] is not None else ""
    return f"{cell['mean']:.3f}{span}"


def _points(row: Values) -> str:
    span = f" ({row['low'] * 100:+.1f} to {row['high'] * 100:+.1f})" if row["low"] is not None else ""
    return f"{row['mean'] * 100:+.1f} points{span}"


__all__ = ["BASELINES", "Chart", "Point", "Series", "legend", "make_charts", "mean_curve", "svg", "ticks"]
