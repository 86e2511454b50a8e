"""Write the charts of a study as SVG and PNG files with matplotlib, and a summary of two charts.

Names of arms and files are drawn literally: a `$` in them does not start a formula. The page has its own renderer
(the reason is in chart_svg.py).
"""

import re
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

from headswap.core.files import atomic_file
from headswap.study.report.chart_svg import BAR_SHARE, MOST_LEVEL_NAMES, SLANT, shortened
from headswap.study.report.charts import Chart, Series, summary_charts
from headswap.study.statistics.results import EPOCH_SCORES

BARS = "▁▂▃▄▅▆▇█"
COLOURS = (
    "#6b7280", "#b7791f", "#c0562b", "#2b6cc0", "#2f855a", "#805ad5", "#b83280", "#0f766e", "#3b4252", "#7c5e10",
    "#e11d48", "#0284c7",
)  # fmt: skip
STYLE: dict[Any, Any] = {
    "svg.hashsalt": "headswap", "svg.fonttype": "none", "font.size": 10, "text.parse_math": False, "text.usetex": False,
}  # fmt: skip
MARKERS = ("o", "s", "^", "D", "x")
MOST_NAMES_INSIDE = 4  # a longer legend is drawn to the right of the chart
LEGEND_WIDTH = 1.7  # inches
TITLE_WIDTH, NARROW_TITLE_WIDTH = 64, 54  # characters per line of a title: more would be cut off at the right
NAME_WIDTH = 26  # characters per line of a legend: arms that are named by their settings have long names


def spark_line(values: Sequence[float], low: float, high: float) -> str:
    """Values as a row of bar characters."""
    span = max(high - low, 1e-9)
    return "".join(BARS[min(len(BARS) - 1, int((value - low) / span * len(BARS)))] for value in values)


def draw_figures(charts: Sequence[Chart], folder: Path, *, title: str, metric: str = EPOCH_SCORES[0]) -> list[Path]:
    """Write every chart as SVG and PNG, and `summary`: scores by labels, and the epochs of the largest budget."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    with rc_context(STYLE):
        for chart in charts:
            figure = Figure(figsize=(6.4 + _legend_width(chart), 4.0), layout="constrained")
            axes = figure.subplots()
            _draw(axes, chart)
            axes.set_title(fill(chart.title, TITLE_WIDTH), fontsize=11, loc="left")
            written += _save(figure, folder / chart.id)
        if not (chosen := summary_charts(charts, metric)):  # systems whose numbers of labels are not given
            return written
        figure = Figure(figsize=(sum(5.2 + _legend_width(chart) for chart in chosen), 4.0), layout="constrained")
        for axes, chart in zip(figure.subplots(1, len(chosen), squeeze=False)[0], chosen, strict=True):
            _draw(axes, chart)
            axes.set_title(fill(chart.title, NARROW_TITLE_WIDTH), fontsize=10, loc="left")
        figure.suptitle(title, fontsize=11, x=0.01, ha="left")
        written += _save(figure, folder / "summary")
    return written


def _draw(axes: Any, chart: Chart) -> None:
    for series in chart.series:
        if not series.points:
            continue
        if chart.form != "lines":
            _draw_form(axes, chart, series)
            continue
        colour, marker = COLOURS[series.colour % len(COLOURS)], MARKERS[series.colour % len(MARKERS)]
        offset = 1 + 0.025 * chart.offset_of(series) if chart.is_log_x else 1.0
        xs, ys = [point.x * offset for point in series.points], [point.y for point in series.points]
        if series.is_thin:
            axes.plot(xs, ys, color=colour, alpha=0.3, linewidth=0.9)
            continue
        axes.errorbar(
            xs, ys, yerr=_spread(series), color=colour, marker=marker, markersize=5, linewidth=1.8, elinewidth=1,
            capsize=3, label=_in_legend(series.name),
        )  # fmt: skip
    if chart.names:
        is_slanted = len(chart.names) > MOST_LEVEL_NAMES
        turn = {"rotation": SLANT, "ha": "right", "rotation_mode": "anchor"} if is_slanted else {}
        axes.set_xticks(range(len(chart.names)), shortened(chart.names), **turn)
    if chart.form != "lines":
        x0, x1, y0, y1 = chart.limits()
        axes.set(xlim=(x0, x1), ylim=(y0, y1))
    if chart.is_log_x:
        axes.set_xscale("log")
        values = sorted({point.x for series in chart.series for point in series.points})
        axes.set_xticks(values, [f"{value:,g}" for value in values])
        axes.minorticks_off()
    if chart.is_log_y:
        from matplotlib.ticker import LogFormatter

        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(LogFormatter())  # the default one writes formulas
        axes.yaxis.set_minor_formatter(LogFormatter())
    if chart.line == "zero":
        axes.axhline(0, color="#888888", linewidth=1)
    if chart.line in ("diagonal", "identity"):
        low, high = axes.get_xlim()
        axes.plot([low, high], [low, high], color="#888888", linewidth=1, linestyle="--")
    axes.set_xlabel(chart.x_title)
    axes.set_ylabel(chart.y_title)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    # A named "best" is quiet: as its default, matplotlib warns that it took long on a busy machine.
    place = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)} if _legend_width(chart) else {"loc": "best"}
    axes.legend(frameon=False, fontsize=9, **place)


def _draw_form(axes: Any, chart: Chart, series: Series) -> None:
    """Bars with their intervals, or points without a line."""
    colour, label = COLOURS[series.colour % len(COLOURS)], _in_legend(series.name)
    xs, ys = [point.x for point in series.points], [point.y for point in series.points]
    if chart.form == "points":
        axes.plot(xs, ys, color=colour, marker="o", markersize=3.5, alpha=0.5, linestyle="none", label=label)
        return
    width = BAR_SHARE / len(chart.series)
    left = (chart.series.index(series) - (len(chart.series) - 1) / 2) * width
    axes.bar([x + left for x in xs], ys, width, color=colour, yerr=_spread(series), ecolor="#444444", label=label)


def _spread(series: Series) -> list[list[float]]:
    """The distances from the points to the ends of their intervals."""
    return [
        [max(0.0, point.y - (point.y if point.low is None else point.low)) for point in series.points],
        [max(0.0, (point.y if point.high is None else point.high) - point.y) for point in series.points],
    ]


def _in_legend(name: str) -> str:
    """A name for the legend: wrapped, also after colons, and with a space before `_`, which matplotlib would hide."""
    lines = [""]
    for part in re.split(r"(?<=[\s:-])", name):
        if lines[-1] and len(lines[-1]) + len(part.rstrip()) > NAME_WIDTH:
            lines.append("")
        lines[-1] += part
    wrapped = "\n".join(fill(line, NAME_WIDTH) for line in lines)
    return f" {wrapped}" if wrapped.startswith("_") else wrapped


def _legend_width(chart: Chart) -> float:
    """The width of a legend to the right of a chart, in inches; 0 if it is inside, where it would cover bars."""
    names = {series.name for series in chart.series if series.points and not series.is_thin}
    return LEGEND_WIDTH if len(names) > MOST_NAMES_INSIDE or chart.form == "bars" else 0.0


def _save(figure: Any, path: Path) -> list[Path]:
    files = [path.with_name(f"{path.name}.svg"), path.with_name(f"{path.name}.png")]
    with atomic_file(files[0]) as temporary:
        figure.savefig(temporary, format="svg", metadata={"Date": None})
    with atomic_file(files[1]) as temporary:
        figure.savefig(temporary, format="png", dpi=140, metadata={"Software": None})
    return files
