"""What a person sees of a study: a line a job, the table with small curves, and where the report is."""

import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from headswap.cli.display import print_table
from headswap.core.errors import counted
from headswap.study.chart_files import spark_line
from headswap.study.charts import mean_curve
from headswap.study.estimate import Preflight
from headswap.study.executor import Watcher
from headswap.study.findings import seconds as told_seconds
from headswap.study.plan import Job

SECONDS_BETWEEN_LOOKS = 1.0


class JobDisplay(Watcher):
    """A line for every job that ends; on a terminal also what is running."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self.console, self.quiet = console, quiet
        self.num_jobs = self.num_ended = 0
        self.status = console.status("") if console.is_terminal and not quiet else None
        self.looked = 0.0

    def on_preflight(self, preflight: Preflight) -> None:
        """Say what is coming."""
        self.num_jobs, self.num_ended = preflight.num_jobs, preflight.num_done
        if not self.quiet:
            self.console.print(f"Pre-flight: {preflight.sentence()}")

    def on_start(self, job: Job) -> None:
        """Nothing is said: a job is told when it ends."""
        if self.status:
            self.status.start()

    def on_end(self, job: Job, *, seconds: float, problem: str | None) -> None:
        """One line a job; a problem is told even when quiet."""
        if job.kind in ("probe", "tokenizer"):
            if problem:
                self.console.print(f"FAILED {job.name}: {problem}", soft_wrap=True)
            return
        self.num_ended += 1
        place = f"[{self.num_ended}/{self.num_jobs}]"
        if problem:
            self.console.print(f"{place} FAILED {job.name}: {problem}", soft_wrap=True)
        elif not self.quiet:
            self.console.print(f"{place} {job.name}  {told_seconds(seconds)}")

    def on_wait(self, running: list[Job]) -> None:
        """What is running, and how far it is."""
        if self.status is None or time.monotonic() - self.looked < SECONDS_BETWEEN_LOOKS:
            return
        self.looked = time.monotonic()
        if running:
            names = ", ".join(f"{job.name}{_how_far(job)}" for job in running)
            self.status.update(Text(names))  # a string would be read as markup
        else:
            self.status.stop()

    def close(self) -> None:
        """Take the line down."""
        if self.status:
            self.status.stop()


def _how_far(job: Job) -> str:
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
    """The table, the answer, and where the rest is."""
    cells = {(cell["arm"], cell["labels"]): cell for cell in results["cells"]}
    of_what, curves = _curves(results)
    columns = ["arm", *(f"{budget['labels']:,} labels" for budget in results["budgets"])]
    columns += [of_what] if curves else []
    rows = []
    for arm in results["arms"]:
        told = [_cell(cells.get((arm, budget["labels"])), results["metric"]) for budget in results["budgets"]]
        rows.append([arm, *told, *([curves.get(arm, "")] if curves else [])])
    metric = {"macro_f1": "macro-F1"}.get(results["metric"], results["metric"])
    seeds = counted(len(results["seeds"]), "seed")
    title = f"Test {metric}, mean and 95 % interval, {seeds}, {results['num_test']:,} texts"
    if curves:
        largest = results["budgets"][-1]["labels"]
        title += f"\nBars: {of_what} accuracy from epoch to epoch, {largest:,} labels"
    print_table(title, columns, rows)
    for sentence in [*results["headline"], *results["caveats"]]:
        print(sentence)
    if out is not None:
        print(f"Report: {out}/report.html (also report.md, results.csv, results.json, figures/).")


def _cell(cell: dict[str, Any] | None, metric: str) -> str:
    """Mean and interval over seeds; of a single seed the error of the test sample, which is known for accuracy."""
    if cell is None:
        return "not run"
    span = ""
    if cell["low"] is not None:
        span = f" ({cell['low']:.3f} to {cell['high']:.3f})"
    elif metric == "accuracy":
        span = f" (test sample {cell['test_low']:.3f} to {cell['test_high']:.3f})"
    return f"{cell['mean']:.3f}{span}"


def _curves(results: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """Mean accuracy by epoch at the largest budget, as small bars on one scale, and of which texts it is."""
    largest = results["budgets"][-1]["labels"]
    for measure, texts in (("eval_accuracy", "validation"), ("train_accuracy", "training")):
        chosen = [c for c in results["curves"] if c["labels"] == largest and c["measure"] == measure]
        if chosen:
            means = {c["arm"]: [v for _, v in mean_curve([p for p in c["seeds"].values() if p])] for c in chosen}
            every = [value for curve in means.values() for value in curve]
            bars = {arm: spark_line(curve, min(every), max(every)) for arm, curve in means.items()}
            return texts, bars
    return "", {}
