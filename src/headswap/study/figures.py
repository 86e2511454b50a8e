"""Figures: accuracy by epoch, as a file for people and as a few characters for a terminal."""

from collections.abc import Sequence
from pathlib import Path

from headswap.study.comparison import Comparison

BARS = "▁▂▃▄▅▆▇█"
COLOURS = {"scratch": "#c0562b", "pretrained": "#2b6cc0"}


def mean_curve(curves: Sequence[Sequence[tuple[float, float]]]) -> list[tuple[float, float]]:
    """The mean over seeds at every epoch that all of them reached."""
    shortest = min(len(curve) for curve in curves)
    return [(curves[0][index][0], sum(curve[index][1] for curve in curves) / len(curves)) for index in range(shortest)]


def spark_line(values: Sequence[float], low: float, high: float) -> str:
    """Values as a row of small bars."""
    span = max(high - low, 1e-9)
    return "".join(BARS[min(len(BARS) - 1, int((value - low) / span * len(BARS)))] for value in values)


def draw_comparison(comparison: Comparison, path: Path, *, title: str) -> None:
    """Both arms' validation accuracy by epoch, each seed thin and the mean thick, with the test table beside it."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=(3, 2))
    for arm, curves in comparison.curves.items():
        for curve in curves:
            left.plot(*zip(*curve, strict=True), color=COLOURS[arm], alpha=0.25, linewidth=1)
        left.plot(
            *zip(*mean_curve(curves), strict=True),
            color=COLOURS[arm],
            linewidth=2.2,
            marker="o",
            markersize=3,
            label=arm,
        )
    left.set_xlabel("epoch of fine-tuning (0 = before the first step)")
    left.set_ylabel("validation accuracy")
    left.legend(frameon=False)
    names = list(comparison.accuracy)
    for position, name in enumerate(reversed(names)):
        found = comparison.interval(name)
        low, high = (found.low, found.high) if found.low is not None and found.high is not None else (found.mean,) * 2
        error = [[max(0.0, found.mean - low)], [max(0.0, high - found.mean)]]
        right.errorbar(found.mean, position, xerr=error, fmt="o", capsize=3, color=COLOURS.get(name, "#555555"))
        right.annotate(
            f"{found.mean:.3f}",
            (found.mean, position),
            textcoords="offset points",
            xytext=(0, 7),
            ha="center",
            fontsize=9,
        )
    right.set_yticks(range(len(names)), list(reversed(names)))
    right.set_ylim(-0.6, len(names) - 0.3)
    right.margins(x=0.15)
    right.set_xlabel("test accuracy (mean, 95 % interval)")
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    figure.suptitle(title, fontsize=11, x=0.01, ha="left")
    path.parent.mkdir(parents=True, exist_ok=True)
    for suffix in (".svg", ".png"):
        figure.savefig(path.with_suffix(suffix), dpi=140)
