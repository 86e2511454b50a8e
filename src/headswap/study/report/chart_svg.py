"""Draw a chart as inline SVG for the page: colours follow the page (light or dark), points have tooltips.

Figure files are drawn by matplotlib (chart_files.py), a second renderer: its SVG has fixed colours and no tooltips, and
a PNG cannot be made from this SVG without another dependency.
"""

import math
from collections.abc import Sequence
from html import escape
from itertools import pairwise

from headswap.study.report.charts import Chart, Series

WIDTH, HEIGHT = 480, 300
LEFT, RIGHT, TOP, BOTTOM = 76, 10, 12, 46
OFFSET = 6  # between the error bars of one budget
MARKERS = ("circle", "square", "triangle", "diamond", "cross")
SQUARE = MARKERS.index("square")
BAR_SHARE = 0.8  # of the width of a group of bars
MOST_LEVEL_NAMES = 4  # more names of bars are slanted
SLANT = 35  # degrees
NAME_HEIGHT, LONGEST_NAME = 4, 15  # of slanted names: height per character, and characters
MOST_DECIMALS = 8  # of tick labels; smaller numbers are written with an exponent
HEAD = 5  # characters before the cut of a name that is cut in the middle


def svg(chart: Chart) -> str:
    """A chart as inline SVG."""
    frame = _Frame(chart)
    parts = [
        f'<svg class="chart" id="chart-{chart.id}" viewBox="0 0 {WIDTH} {frame.height}" role="img" '
        f'aria-label="{escape(chart.title)}">',
        *frame.axes(),
    ]
    for series in sorted(chart.series, key=lambda item: not item.is_thin):
        parts += DRAWN[chart.form](frame, series)
    return "\n".join([*parts, "</svg>"])


class _Frame:
    def __init__(self, chart: Chart) -> None:
        self.chart = chart
        self.x0, self.x1, self.y0, self.y1 = chart.limits()
        self.is_slanted = len(chart.names) > MOST_LEVEL_NAMES
        longest = max(map(len, shortened(chart.names)), default=0)
        self.height = HEIGHT + (NAME_HEIGHT * longest if self.is_slanted else 0)
        self.inset = 0 if chart.form == "bars" else 22

    def x(self, value: float) -> float:
        if self.x1 == self.x0:
            return (LEFT + WIDTH - RIGHT) / 2
        share = (
            (math.log(value) - math.log(self.x0)) / (math.log(self.x1) - math.log(self.x0))
            if self.chart.is_log_x
            else (value - self.x0) / (self.x1 - self.x0)
        )
        return LEFT + self.inset + share * (WIDTH - LEFT - RIGHT - 2 * self.inset)

    def y(self, value: float) -> float:
        scale = math.log if self.chart.is_log_y else float
        share = (scale(value) - scale(self.y0)) / (scale(self.y1) - scale(self.y0))
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def axes(self) -> list[str]:
        chart, bottom = self.chart, HEIGHT - BOTTOM
        parts = []
        values = log_ticks(self.y0, self.y1) if chart.is_log_y else ticks(self.y0, self.y1)
        for value, name in zip(values, tick_names(values), strict=True):
            y = self.y(value)
            parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text class="tick" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{name}</text>')
        parts += self.names() if chart.names else self.x_ticks()
        if chart.line == "zero":
            y = self.y(0)
            parts.append(f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        if chart.line in ("diagonal", "identity"):
            low, high = max(self.x0, self.y0), min(self.x1, self.y1)
            ends = f'x1="{self.x(low):.1f}" y1="{self.y(low):.1f}" x2="{self.x(high):.1f}" y2="{self.y(high):.1f}"'
            parts.append(f'<line class="rule" {ends}/>')
        middle = (LEFT + WIDTH - RIGHT) / 2
        parts.append(
            f'<text class="axis" x="{middle}" y="{self.height - 8}" text-anchor="middle">{escape(chart.x_title)}</text>'
        )
        centre = (TOP + bottom) / 2
        parts.append(
            f'<text class="axis" x="14" y="{centre}" text-anchor="middle" transform="rotate(-90 14 {centre})">'
            f"{escape(chart.y_title)}</text>"
        )
        return parts

    def x_ticks(self) -> list[str]:
        values = (
            sorted({point.x for series in self.chart.series for point in series.points})
            if self.chart.is_log_x
            else [value for value in ticks(self.x0, self.x1) if self.x0 <= value <= self.x1]
        )
        parts, bottom = [], HEIGHT - BOTTOM
        for value, name in zip(values, tick_names(values), strict=True):
            x = self.x(value)
            parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{bottom}" y2="{bottom + 5}"/>')
            parts.append(f'<text class="tick" x="{x:.1f}" y="{bottom + 19}" text-anchor="middle">{name}</text>')
        return parts

    def names(self) -> list[str]:
        """The names of the groups of bars; many are slanted and cut off, and a tooltip has the whole name."""
        parts, y = [], HEIGHT - BOTTOM + 19
        for place, (name, short) in enumerate(zip(self.chart.names, shortened(self.chart.names), strict=True)):
            x = self.x(place)
            if self.is_slanted:
                turn = f'text-anchor="end" transform="rotate(-{SLANT} {x + 4:.1f} {y - 4})"'
                parts.append(f'<text class="tick" x="{x + 4:.1f}" y="{y - 4}" {turn}>{escape(short)}</text>')
            else:
                parts.append(f'<text class="tick" x="{x:.1f}" y="{y}" text-anchor="middle">{escape(name)}</text>')
        return parts

    def bars(self, series: Series) -> list[str]:
        """One bar per group, with its interval."""
        width = BAR_SHARE * (self.x(1) - self.x(0)) / len(self.chart.series)
        place = self.chart.series.index(series) - len(self.chart.series) / 2
        parts = []
        for point in series.points:
            left, top = self.x(point.x) + place * width, self.y(point.y)
            tip = escape(point.tip)
            parts.append(
                f'<g class="point c{series.colour}" tabindex="0" data-tip="{tip}"><title>{tip}</title>'
                f'<rect class="mark" x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" '
                f'height="{self.y(0) - top:.1f}"/></g>'
            )
            if point.low is not None and point.high is not None:
                low, high = self.y(point.low), self.y(point.high)
                parts.append(f'<path class="bar-whisker" d="M{left + width / 2:.1f} {low:.1f}V{high:.1f}"/>')
        return parts

    def points(self, series: Series) -> list[str]:
        """Small points without a line; there are too many for the keyboard."""
        return [
            f'<circle class="dot c{series.colour}" cx="{self.x(point.x):.1f}" cy="{self.y(point.y):.1f}" r="2.8">'
            f"<title>{escape(point.tip)}</title></circle>"
            for point in series.points
        ]

    def lines(self, series: Series) -> list[str]:
        """Points, their intervals and the line between them; of a single seed only the line."""
        offset = OFFSET * self.chart.offset_of(series)
        places = [(self.x(point.x) + offset, self.y(point.y)) for point in series.points]
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
            tip = escape(point.tip)
            parts.append(
                f'<g class="point c{series.colour}" tabindex="0" data-tip="{tip}"><title>{tip}</title>'
                f'<circle class="hit" cx="{x:.1f}" cy="{y:.1f}" r="11"/>{_marker(series.colour, x, y)}</g>'
            )
        return parts


DRAWN = {"lines": _Frame.lines, "points": _Frame.points, "bars": _Frame.bars}


def _marker(colour: int, x: float, y: float, size: float = 4.5, *, shape: int | None = None) -> str:
    """The marker of a colour; shapes help readers who cannot distinguish colours, and on paper."""
    kind = MARKERS[(colour if shape is None else shape) % len(MARKERS)]
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
    """(name, marker as SVG) of every series that is not thin."""
    entries = {series.name: series.colour for series in chart.series if not series.is_thin and series.points}
    shape = {"lines": None, "points": 0, "bars": SQUARE}[chart.form]
    return [
        (name, f'<svg class="key c{colour}" viewBox="0 0 16 16">{_marker(colour, 8, 8, shape=shape)}</svg>')
        for name, colour in entries.items()
    ]


def shortened(names: Sequence[str]) -> list[str]:
    """The names of groups of bars on their axis: long ones are cut, in the middle where their beginnings are alike.

    Names whose ends are alike, too, have their number among all names at the end.
    """
    cut = [name if len(name) <= LONGEST_NAME else f"{name[: LONGEST_NAME - 1]}…" for name in names]
    tail = LONGEST_NAME - 1 - HEAD
    ends = [
        short if cut.count(short) == 1 else f"{name[:HEAD]}…{name[-tail:]}"
        for name, short in zip(names, cut, strict=True)
    ]
    return [
        short if ends.count(short) == 1 else f"{name[: LONGEST_NAME - 1 - len(str(number))]}…{number}"
        for number, (name, short) in enumerate(zip(names, ends, strict=True), 1)
    ]


def ticks(low: float, high: float, *, most: int = 6) -> list[float]:
    """Round numbers inside a range; for an empty range its only number."""
    if low == high:
        return [low]
    step = 10 ** math.floor(math.log10((high - low) / most))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= most)
    first = math.ceil(low / step - 1e-9)
    digits = max(10, 2 - math.floor(math.log10(step)))
    return [round(number * step, digits) for number in range(first, math.floor(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Round numbers inside a range on a logarithmic scale; a narrow range has the ticks of a linear scale."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = [factor * 10.0**power for power in powers for factor in (1, 2, 5) if low <= factor * 10.0**power <= high]
    return found if len(found) > 1 else ticks(low, high)


def tick_names(values: Sequence[float]) -> list[str]:
    """Tick labels with the same number of decimals, enough to tell them apart."""
    decimals = max((len(f"{value:g}".partition(".")[2]) for value in values if 1e-4 <= abs(value) < 1_000), default=0)
    steps = [end - start for start, end in pairwise(sorted(set(values)))]
    if steps:
        decimals = max(decimals, -math.floor(math.log10(min(steps)) + 1e-9))
    return [f"{value:.3g}" if decimals > MOST_DECIMALS else f"{value:,.{decimals}f}" for value in values]
