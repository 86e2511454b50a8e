"""Messages and the progress bar on standard error, tables and JSON on standard output.

The bar and colours appear only on a terminal (`NO_COLOR` is respected); a pipe gets a plain line now and then. Paths,
labels and names are printed as they are: `[bold]`, `[/]` and `:smile:` in them are text, not markup. Only control
characters are replaced by visible escapes (core/terminal_text.py).
"""

import json
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column, Table

from headswap.core.local_paths import CHECKPOINT
from headswap.core.terminal_text import json_escaped, one_line, visible
from headswap.training.observer import Observer

LINES_ON_A_PIPE = 20
WIDEST = 10_000  # columns, to measure the smallest width of a table


def is_first_process() -> bool:
    """Whether this process prints messages: under torchrun only the first one does."""
    return os.environ.get("WORLD_SIZE", "1") == "1" or os.environ.get("RANK", "0") == "0"


class PlainConsole(Console):
    """A console that prints a text without markup and without control characters."""

    def print(self, *objects: Any, **settings: Any) -> None:
        """Print texts and tables; the cells of a table are made visible by `print_table`."""
        super().print(*(visible(one) if isinstance(one, str) else one for one in objects), **settings)


def plain_console(**settings: Any) -> PlainConsole:
    """A console that prints every text as it is, with control characters made visible."""
    return PlainConsole(highlight=False, markup=False, emoji=False, **settings)


def print_text(text: object) -> None:
    """Print a text of one or several lines on standard output, with control characters made visible."""
    print(visible(text))


def print_line(*cells: object) -> None:
    """Print one line on standard output: cells that are separated by tabs and contain none."""
    print("\t".join(map(one_line, cells)))


def start_messages(*, quiet: bool) -> Console:
    """Send the log messages of headswap to standard error; with `quiet` only warnings."""
    console = plain_console(stderr=True, soft_wrap=True)
    handler = _ConsoleHandler(console)
    logger = logging.getLogger("headswap")
    logger.handlers[:] = [handler]
    logger.setLevel((logging.WARNING if quiet else logging.INFO) if is_first_process() else logging.ERROR)
    logger.propagate = False
    return console


class _ConsoleHandler(logging.Handler):
    """Prints messages above a progress bar; one line per message, without wrapping."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self.console = console

    def emit(self, record: logging.LogRecord) -> None:
        prefix = "Warning: " if record.levelno >= logging.WARNING else ""
        self.console.print(prefix + record.getMessage(), soft_wrap=True)


class Display(Observer):
    """The progress of a run: a bar on a terminal, lines on a pipe, nothing with --quiet."""

    def __init__(self, console: Console, *, quiet: bool) -> None:
        self.console, self.quiet = console, quiet or not is_first_process()
        self.progress: Progress | None = None
        self.total_steps = 1
        self.shown = -1

    def on_start(self, *, total_steps: int, first_step: int) -> None:
        """Start the bar."""
        self.total_steps = total_steps
        if self.quiet or not self.console.is_terminal:
            return
        columns = (
            TextColumn("step"), MofNCompleteColumn(), BarColumn(bar_width=30),
            TextColumn("{task.fields[note]}", markup=False),
            TimeRemainingColumn(),
        )  # fmt: skip
        self.progress = Progress(*columns, console=self.console, transient=True)
        self.progress.start()
        self.task = self.progress.add_task("train", total=total_steps, completed=first_step, note="")

    def on_step(self, line: dict[str, Any]) -> None:
        """Update the bar, or print about 20 lines per run on a pipe."""
        rate = line["tokens"] / line["seconds"] if line["seconds"] else 0.0
        note = f"training loss {line['train_loss']:.3f}  {rate:,.0f} tokens/s"
        if self.progress is not None:
            self.progress.update(self.task, completed=line["step"], note=note)
        elif not self.quiet:
            part = line["step"] * LINES_ON_A_PIPE // self.total_steps
            if part > self.shown:
                self.shown = part
                self.console.print(f"step {line['step']}/{self.total_steps}  {note}")

    def on_evaluation(self, line: dict[str, Any]) -> None:
        """Print one line per evaluation."""
        if self.progress is not None:
            self.progress.update(self.task, completed=line["step"])
        if not self.quiet:
            self.console.print(evaluation_line(line))
        if line["step"] >= self.total_steps:
            self.close()

    def close(self) -> None:
        """Remove the bar."""
        if self.progress is not None:
            self.progress.stop()
            self.progress = None

    def __enter__(self) -> "Display":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def evaluation_line(line: dict[str, Any]) -> str:
    """The scores of an evaluation in one line."""
    parts = [f"epoch {line['epoch']:.2f}"]
    loss_name = "held-out loss" if "eval_perplexity" in line else "validation loss"
    for key, name, form in (
        ("eval_loss", loss_name, ".3f"), ("eval_perplexity", "perplexity", ".1f"),
        ("eval_nsp_loss", "next-sentence loss", ".3f"), ("eval_nsp_accuracy", "next-sentence accuracy", ".3f"),
        ("eval_sop_loss", "sentence-order loss", ".3f"), ("eval_sop_accuracy", "sentence-order accuracy", ".3f"),
        ("eval_bits_per_byte", "bits per byte", ".3f"), ("eval_accuracy", "validation accuracy", ".3f"),
        ("eval_f1", "validation F1", ".3f"), ("eval_exact_match", "exact match", ".3f"),
        ("eval_micro_f1", "validation micro-F1", ".3f"), ("eval_macro_f1", "macro-F1", ".3f"),
        ("eval_mse", "validation MSE", ".4g"), ("eval_mae", "MAE", ".4g"), ("eval_pearson", "Pearson", ".3f"),
        ("eval_r2", "R2", ".3f"), ("train_accuracy", "training accuracy", ".3f"), ("train_f1", "training F1", ".3f"),
        ("train_micro_f1", "training micro-F1", ".3f"), ("train_mse", "training MSE", ".4g"),
    ):  # fmt: skip
        if line.get(key) is not None:
            parts.append(f"{name} {line[key]:{form}}")
    if line.get("sample"):
        parts.append(f"sample: {' '.join(line['sample'].split())[:100]!r}")
    return "  ".join(parts)


def model_name(given: str) -> str:
    """A model as tables show it: box:NAME, scratch, or the name of its folder."""
    if given.startswith("box:"):
        return given
    if given.startswith(CHECKPOINT):
        return CHECKPOINT + Path(given.removeprefix(CHECKPOINT)).name
    folder = Path(given)
    return folder.parent.name if folder.name == "bundle" and folder.parent.name else folder.name or given


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """A table on standard output: drawn on a terminal, one block per row if it is too wide, tab-separated on a pipe.

    The first column is never wrapped: it is often needed for the next command.
    """
    if not sys.stdout.isatty():
        for row in (columns, *rows):
            print_line(*row)
        return
    title, columns = visible(title), [one_line(column) for column in columns]
    cells = [[one_line(cell) for cell in row] for row in rows]
    table = Table(title=title, title_justify="left", highlight=False)
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right", no_wrap=number == 0)
    for line in cells:
        table.add_row(*line)
    console = plain_console()
    if table.__rich_measure__(console, console.options.update(max_width=WIDEST)).minimum > console.width:
        _print_blocks(console, title, columns, cells)
    else:
        console.print(table)


def _print_blocks(console: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Each row as its first cell and, below it, one line per other cell."""
    console.print(title, style="italic")
    for first, *rest in rows:
        console.print(first, soft_wrap=True)
        block = Table.grid("", "", Column(overflow="fold"), padding=(0, 2))
        for name, cell in zip(columns[1:], rest, strict=True):
            if cell:
                block.add_row("", name, cell)
        console.print(block)


def print_json(value: object) -> None:
    """One JSON object on one line of standard output; control characters are escaped as JSON does it.

    If the encoding is not Unicode, all other characters are escaped too.
    """
    is_unicode = (sys.stdout.encoding or "utf-8").lower().startswith("utf")  # StringIO has None
    print(json_escaped(json.dumps(value, ensure_ascii=not is_unicode, allow_nan=False)))
