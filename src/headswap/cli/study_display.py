"""What a study prints: one line per job, then the table of results and the path of the report."""

import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from headswap.cli.display import print_table, print_text
from headswap.core.errors import counted
from headswap.core.terminal_text import visible
from headswap.study.executors.job_queue import Watcher
from headswap.study.jobs.planned_jobs import Job
from headswap.study.jobs.preflight import Preflight
from headswap.study.report.chart_files import spark_line
from headswap.study.report.charts import METRIC_NAMES, mean_curve
from headswap.study.report.findings import seconds as readable_seconds
from headswap.study.statistics.budget_words import budget_words
from headswap.study.statistics.results import UNIT, Budget
from headswap.tasks.choose import DEFAULT_TASK

SECONDS_BETWEEN_UPDATES = 1.0
SETS = {"eval": "validation", "train": "training"}
"""The set that a metric per epoch was computed on, by the first part of its name."""


class JobDisplay(Watcher):
    """One line per finished job; on a terminal also the running jobs."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self.console, self.quiet = console, quiet
        self.num_jobs = self.num_ended = 0
        self.status = console.status("") if console.is_terminal and not quiet else None
        self.updated = 0.0

    def on_preflight(self, preflight: Preflight) -> None:
        """Print the number of jobs and the estimated time."""
        self.num_jobs, self.num_ended = preflight.num_jobs, preflight.num_done
        if not self.quiet:
            self.console.print(f"Plan: {preflight.sentence()}")
            if advice := preflight.advice():
                self.console.print(advice)

    def on_start(self, job: Job) -> None:
        """Show the status line; a job is printed when it ends."""
        if self.status:
            self.status.start()

    def on_end(self, job: Job, *, seconds: float, problem: str | None) -> None:
        """Print one line; a failure is printed even with --quiet."""
        if job.kind in ("probe", "tokenizer"):
            if problem:
                self.console.print(f"FAILED {job.name}: {problem}", soft_wrap=True)
            return
        self.num_ended += 1
        place = f"[{self.num_ended}/{self.num_jobs}]"
        if problem:
            self.console.print(f"{place} FAILED {job.name}: {problem}", soft_wrap=True)
        elif not self.quiet:
            self.console.print(f"{place} {job.name}  {readable_seconds(seconds)}")

    def on_wait(self, running: list[Job]) -> None:
        """Show the running jobs with their epochs."""
        if self.status is None or time.monotonic() - self.updated < SECONDS_BETWEEN_UPDATES:
            return
        self.updated = time.monotonic()
        if running:
            names = ", ".join(f"{job.name}{_epoch(job)}" for job in running)
            self.status.update(Text(visible(names)))  # a plain string would be parsed as markup
        else:
            self.status.stop()

    def close(self) -> None:
        """Remove the status line."""
        if self.status:
            self.status.stop()


def _epoch(job: Job) -> str:
    file = Path(job.folder) / "metrics.jsonl"
    try:
        last = file.read_text(encoding="utf-8").rstrip().rpartition("\n")[2]
    except OSError:
        return ""
    import json

    try:
        return f" (epoch {json.loads(last)['epoch']:.2f})"
    except (ValueError, KeyError):
        return ""


def print_results(results: dict[str, Any], *, out: Path | None) -> None:
    """Print the table, the main findings, and where the report is."""
    cells = {(cell["arm"], cell["labels"]): cell for cell in results["cells"]}
    unit = results.get("unit", UNIT)
    words = budget_words(results.get("task", DEFAULT_TASK), unit)
    split, what, curves = _curves(results)
    columns = ["arm", *(Budget(**budget).heading(words) for budget in results["budgets"])]
    columns += [split] if curves else []
    units = f"{unit}s"
    rows = []
    for arm in results["arms"]:
        shown = [_cell(cells.get((arm, budget["labels"])), units) for budget in results["budgets"]]
        rows.append([arm, *shown, *([curves.get(arm, "")] if curves else [])])
    metric = METRIC_NAMES[results["metric"]]
    seeds = counted(len(results["seeds"]), "seed") if results["seeds"] else "one answer per text"
    over = f"seeds and {units}" if results["seeds"] else units
    title = f"Test {metric}, mean and 95 % interval over {over}, {seeds}, {results['num_test']:,} {units}"
    if curves:
        largest = results["budgets"][-1]["labels"]
        title += f"\nBars: {split} {what} per epoch with {largest:,} {words.many}"
    print_table(title, columns, rows)
    for sentence in [*results["headline"], *results["caveats"]]:
        print_text(sentence)
    if out is not None:
        print_text(f"Report: {out}/report.html (also report.md, results.csv, results.json, figures/).")
    if "closing" in results:
        print_text(results["closing"])


def _cell(cell: dict[str, Any] | None, units: str = f"{UNIT}s") -> str:
    """Mean and interval; with fewer than 3 seeds the interval is over test texts only. The median, if runs collapse."""
    if cell is None:
        return "not run"
    median = f", median {cell['median']:z.3f}" if cell["median"] is not None else ""
    if cell["low"] is None:
        return f"{cell['mean']:z.3f}{median}"
    note = f"{units} only: " if cell["over"] == "texts" else ""
    return f"{cell['mean']:z.3f} ({note}{cell['low']:z.3f} to {cell['high']:z.3f}){median}"


def _curves(results: dict[str, Any]) -> tuple[str, str, dict[str, str]]:
    """The split, the metric, and its mean per epoch of each arm at the largest budget as small bars on one scale."""
    largest = results["budgets"][-1]["labels"]
    names = [results["metric"], *(name for name in ("accuracy", "r2") if name != results["metric"])]
    known = [(f"{kind}_{name}", texts) for name in names for kind, texts in SETS.items()]
    for measure, texts in known:
        chosen = [c for c in results["curves"] if c["labels"] == largest and c["measure"] == measure]
        if chosen:
            means = {c["arm"]: [v for _, v in mean_curve([p for p in c["seeds"].values() if p])] for c in chosen}
            every = [value for curve in means.values() for value in curve]
            bars = {arm: spark_line(curve, min(every), max(every)) for arm, curve in means.items()}
            return texts, METRIC_NAMES[measure.partition("_")[2]], bars
    return "", "", {}
