"""Which signals ask a run to stop."""

import signal
from collections.abc import Iterator

import pytest

from headswap.core.stop_requests import stop_requests, termination_signals

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="Windows has no SIGHUP")


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    """The tests begin with a hangup that is not ignored, also under nohup."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_each_signal_sets_the_event_and_the_old_handler_comes_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with stop_requests() as request:
        assert not request.is_set()
        signal.raise_signal(number)
        assert request.is_set()
    assert signal.getsignal(number) is before


def test_a_hangup_that_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # what nohup does
    assert termination_signals() == [signal.SIGTERM]
    with stop_requests() as request:
        signal.raise_signal(signal.SIGHUP)
        assert not request.is_set()
    assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
