"""Requests to stop: Ctrl-C, SIGTERM and SIGHUP set an event, so that a run can save its state before it ends."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


def termination_signals() -> list[signal.Signals]:
    """SIGTERM, and SIGHUP, which a closed terminal sends, unless the process ignores it (`nohup`)."""
    if not hasattr(signal, "SIGHUP") or signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # Windows has none
        return [signal.SIGTERM]
    return [signal.SIGTERM, signal.SIGHUP]


@contextmanager
def stop_requests(on_request: Callable[[], None] = lambda: None) -> Iterator[threading.Event]:
    """Yield an event that these signals set; `on_request` is then called. A second Ctrl-C interrupts at once."""
    request = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield request  # Python delivers signals only to the main thread
        return

    def handle(number: int, _frame: object) -> None:
        if request.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        request.set()
        on_request()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, *termination_signals())}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
