"""Callbacks of a run. The command line uses them to draw progress; by default they do nothing."""

from typing import Any


class Observer:
    """Receives the progress of a run; override any method."""

    def on_start(self, *, total_steps: int, first_step: int) -> None:
        """Training starts, or resumes at `first_step`."""

    def on_step(self, line: dict[str, Any]) -> None:
        """A line of training metrics was written."""

    def on_evaluation(self, line: dict[str, Any]) -> None:
        """A line of evaluation metrics was written."""
