"""What a training logs, while an estimator is fitted: warnings become Python warnings, everything else is dropped.

Issues of the data (`headswap doctor` lists them) are dropped too: a cross-validation would repeat them in every
fold. Only the records of the thread that fits are taken, so that estimators can be fitted in several threads.
"""

import logging
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from sklearn.exceptions import ConvergenceWarning

log = logging.getLogger("headswap")


@contextmanager
def as_warnings(*, verbose: bool = False) -> Iterator[None]:
    """Log messages of the body become warnings; with `verbose` the others are printed.

    A model that predicts one class for all texts is a ConvergenceWarning, anything else a UserWarning.
    """
    thread, found = threading.get_ident(), list[logging.LogRecord]()

    def take(record: logging.LogRecord) -> bool:
        if record.thread != thread:
            return True
        if record.levelno >= logging.WARNING and not getattr(record, "is_issue", False):
            found.append(record)
        elif verbose:
            print(record.getMessage())
        return False

    before = log.level
    if verbose:
        log.setLevel(logging.INFO)
    log.addFilter(take)
    try:
        yield
    finally:
        log.removeFilter(take)
        if verbose:
            log.setLevel(before)
        for record in found:
            has_collapsed = getattr(record, "has_collapsed", False)
            kind = ConvergenceWarning if has_collapsed else UserWarning
            warnings.warn(record.getMessage(), kind, stacklevel=_frames_to_the_caller())


def _frames_to_the_caller() -> int:
    """How many frames above the call of this function the first one is that is not part of an estimator."""
    frame, count = sys._getframe(1), 1
    while frame.f_back and frame.f_globals.get("__name__", "").startswith(("headswap.estimator", "contextlib")):
        frame, count = frame.f_back, count + 1
    return count
