"""Requests to stop: Ctrl-C and SIGTERM set an event, so that a run can save its state before it ends."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def stop_requests(on_request: Callable[[], None] = lambda: None) -> Iterator[threading.Event]:
    """Yield an event that Ctrl-C or SIGTERM sets; `on_request` is then called. A second Ctrl-C interrupts at once."""
    request = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield request  # Python delivers signals only to the main thread
        return

    def handle(number: int, _frame: object) -> None:
        if request.is_set() and number == signal.SIGINT:
            raise KeyboardInterrupt
        request.set()
        on_request()

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
