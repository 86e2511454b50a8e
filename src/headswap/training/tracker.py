"""Trackers (`--report-to`): the metrics of a run, written for another tool as well.

A tracker observes a run. It reads the lines of `metrics.jsonl` and `result.json` and changes nothing, so it is not part
of the recipe: results, ids of jobs and the rules of resuming do not depend on it. When a run is resumed, the tracker
gets all lines so far, so none is missing and none is there twice. A tracker that cannot start is an error before the
first step. One that fails later is a warning, and training continues; `--resume` completes its record.

A new tracker is a class derived from `Tracker`, in a file of its own, and one line in `TRACKERS` (registry.py).
"""

import logging
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, ClassVar

from headswap.core.errors import HeadswapError, MissingExtraError, RunError, SettingError
from headswap.registry import TRACKERS
from headswap.training.observer import Observer
from headswap.training.run_folder import RunFolder

log = logging.getLogger("headswap")
NOT_IN_NAMES = re.compile(r"[^\w\-. ]")
FINAL = ("loss", "perplexity", "bits_per_byte")
"""What a pre-training run states about its weights at the end."""


class Tracker(ABC):
    """Writes the metrics of one run for another tool."""

    needs: ClassVar[tuple[str, ...]]
    """Modules that must be installed, beginning with the one that gives the tool its name."""
    extra: ClassVar[str]
    """The extra of headswap that installs them."""

    def __init__(self, run: RunFolder) -> None:
        self.run = run

    @abstractmethod
    def start(self, lines: Sequence[Mapping[str, Any]]) -> None:
        """Start or continue the record of the run; `lines` are those of `metrics.jsonl` so far."""

    @abstractmethod
    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Add the values of one step."""

    @abstractmethod
    def close(self, *, is_finished: bool) -> None:
        """Write what is left, and state whether the run is finished."""


def check_trackers(names: Sequence[str]) -> None:
    """Raise an error if a name is unknown or a package is missing; nothing is imported."""
    for name in names:
        if name not in TRACKERS:
            raise SettingError(f"report_to = {name!r} is not known. Give {' or '.join(TRACKERS)}.")
        tracker = TRACKERS.load(name)
        for module in tracker.needs:
            if find_spec(module) is None:
                raise MissingExtraError(f"--report-to {name}", extra=tracker.extra, package=module)


class Tracking(Observer):
    """Passes the progress of a run to its observer and its trackers."""

    def __init__(self, run: RunFolder, observer: Observer, trackers: Mapping[str, Tracker]) -> None:
        self.run, self.observer = run, observer
        self.trackers, self.started = dict(trackers), {}  # type: tuple[dict[str, Tracker], dict[str, Tracker]]
        self.last_step = 0

    def on_start(self, *, total_steps: int, first_step: int) -> None:
        """Start the trackers with the lines so far."""
        self.observer.on_start(total_steps=total_steps, first_step=first_step)
        self.last_step = first_step
        for name, tracker in self.trackers.items():
            try:
                tracker.start(self.run.metrics())
            except HeadswapError:
                raise
            except Exception as error:
                raise RunError(
                    f"--report-to {name} cannot start: {error}. Correct this, or remove the flag."
                ) from error
            self.started[name] = tracker

    def on_step(self, line: dict[str, Any]) -> None:
        """Pass on a line of training metrics."""
        self.observer.on_step(line)
        self._write(line)

    def on_evaluation(self, line: dict[str, Any]) -> None:
        """Pass on a line of evaluation metrics."""
        self.observer.on_evaluation(line)
        self._write(line)

    def finish(self) -> None:
        """Write the final figures, those of the test set and its baselines among them."""
        if self.started:
            self._write({"step": self.last_step, **final_values(self.run.result)})

    def close(self, *, is_finished: bool) -> None:
        """Close the trackers."""
        for name in list(self.started):
            self._call(name, lambda tracker: tracker.close(is_finished=is_finished))

    def _write(self, line: Mapping[str, Any]) -> None:
        self.last_step = line["step"]
        for name in list(self.started):
            self._call(name, lambda tracker: tracker.write(line["step"], numbers_of(line)))

    def _call(self, name: str, action: Any) -> None:
        """Call a tracker; if it fails, it is not called again in this run."""
        try:
            action(self.started[name])
        except Exception as error:
            del self.started[name]
            log.warning(
                "--report-to %s failed (%s). Training continues without it; metrics.jsonl has every line.", name, error
            )


@contextmanager
def tracking(names: Sequence[str], run: RunFolder, observer: Observer, *, is_first: bool) -> Iterator[Tracking]:
    """The observer of a run with its trackers; only the first process writes."""
    chosen = {name: TRACKERS.load(name)(run) for name in names} if is_first else {}
    made = Tracking(run, observer, chosen)
    try:
        yield made
    except BaseException:
        made.close(is_finished=False)
        raise
    made.close(is_finished=True)


def numbers_of(line: Mapping[str, Any]) -> dict[str, float]:
    """The finite numbers of a line of metrics, without its step; texts, such as samples, are left out."""
    return {
        NOT_IN_NAMES.sub("_", name): float(value)
        for name, value in line.items()
        if name != "step" and isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    }


def final_values(result: Mapping[str, Any]) -> dict[str, Any]:
    """The figures of `result.json`: `test_NAME` and `test_BASELINE_NAME`, or the held-out figures of a base."""
    values = {f"test_{name}": value for name, value in (result.get("test") or {}).items()}
    for baseline, scores in (result.get("baselines") or {}).items():
        values |= {f"test_{baseline}_{name}": value for name, value in scores.items()}
    return values | {f"final_{name}": result[name] for name in FINAL if name in result}
