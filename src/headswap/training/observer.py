"""What a run tells while it goes on. The command line draws it; here it is silent."""

from typing import Any


class Observer:
    """Hears of a run's progress; every method may be overridden."""

    def on_start(self, *, total_steps: int, first_step: int) -> None:
        """Training begins, or goes on at `first_step`."""

    def on_step(self, line: dict[str, Any]) -> None:
        """A line of training metrics was written."""

    def on_evaluation(self, line: dict[str, Any]) -> None:
        """A line of evaluation metrics was written."""

    def on_prepare(self, what: str, done: int) -> None:
        """Documents are being read or encoded."""
