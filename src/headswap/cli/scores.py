"""The metrics of a task as tables: what `finetune` and `evaluate` print."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headswap.cli.display import print_table
from headswap.tasks.config import METRIC_TITLES

if TYPE_CHECKING:
    from headswap.tasks.task import Task

INTERVAL = "95 % interval (test sample)"


def print_comparison(task: "Task", scores: Mapping[str, dict[str, Any]]) -> None:
    """One row per model: the task's first metric with its interval, then the others."""
    first, *others = task.table_metrics
    test = next(iter(scores.values()))
    columns = ("model", _title(first), INTERVAL, *map(_title, others))
    rows = []
    for model, metrics in scores.items():
        low, high = task.interval(metrics)
        values = (_shown(metrics[name]) for name in others)
        rows.append((model, _shown(metrics[first]), f"{low:z.3f} to {high:z.3f}", *values))
    print_table(f"Test, {task.describe_set(test)}, one seed", columns, rows)
    _print_details(task, test)


def print_evaluation(task: "Task", metrics: dict[str, Any]) -> None:
    """One row per metric."""
    first, *others = task.table_metrics
    low, high = task.interval(metrics)
    rows = [(_title(first), _shown(metrics[first], 4), f"{low:z.4f} to {high:z.4f}")]
    rows += [(_title(name), _shown(metrics[name], 4), "") for name in others]
    further = [
        *task.extra_rows(metrics),
        ("loss", metrics["loss"]),
        ("share of tokens cut off", metrics["truncated_share"]),
    ]
    if found := metrics.get("abstention"):
        accuracy = _shown(found["accuracy"], 4)
        further += [(f"coverage, abstaining below {found['below']:g}", found["coverage"])]
    rows += [(name, f"{value:z.4f}", "") for name, value in further]
    rows += [("accuracy of the answered texts", accuracy, "")] if found else []
    print_table(f"{metrics['num_examples']:,} {task.noun}s", ("measure", "value", INTERVAL), rows)
    _print_details(task, metrics)


def _print_details(task: "Task", metrics: dict[str, Any]) -> None:
    for table in task.detail_tables(metrics):
        print_table(table.title, table.columns, table.rows)


def _title(metric: str) -> str:
    return METRIC_TITLES.get(metric, metric)


def _shown(value: float | None, digits: int = 3) -> str:
    return "none" if value is None else f"{value:z.{digits}f}"
