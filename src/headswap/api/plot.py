"""The plot of a run: training loss, and the evaluation metrics beside it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headswap.core.files import atomic_file

Lines = Sequence[dict[str, Any]]


def plot_metrics(lines: Lines, *, title: str, path: str | Path | None = None) -> Any:
    """Losses on the left, other evaluation metrics on the right; a matplotlib figure."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(name for line in lines for name in line if _is_curve(name, line[name])))
    losses = [name for name in names if name.endswith("loss")]
    others = [name for name in names if name not in losses]
    figure = Figure(figsize=(10 if others else 5.5, 3.6), layout="constrained")
    groups = [group for group in (losses, others) if group]
    axes = figure.subplots(1, max(1, len(groups)), squeeze=False)[0]
    for axis, group in zip(axes, groups, strict=False):
        for name in group:
            points = [(line["step"], line[name]) for line in lines if line.get(name) is not None]
            axis.plot(*zip(*points, strict=True), label=name, marker="." if len(points) < 40 else None)
        axis.set_xlabel("step")
        axis.legend()
    figure.suptitle(title, parse_math=False)
    if path is not None:
        with atomic_file(Path(path)) as temporary:
            figure.savefig(temporary, format=Path(path).suffix.lstrip(".") or "png")
    return figure


def _is_curve(name: str, value: Any) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and name.startswith(("train_", "eval_")) and not name.endswith(("_pairs", "perplexity"))
