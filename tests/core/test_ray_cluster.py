"""The connection to Ray, with stand-ins for the package."""

import os
import signal
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from headswap.core.errors import MissingExtraError, SettingError
from headswap.core.ray_cluster import connect


def fake(monkeypatch: pytest.MonkeyPatch, *, is_initialized: bool = False, problem: Exception | None = None) -> Any:
    given: dict[str, Any] = {}

    def init(**options: Any) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        given.update(options)
        if problem:
            raise problem

    module = SimpleNamespace(is_initialized=lambda: is_initialized, init=init, shutdown=lambda: None, given=given)
    monkeypatch.setitem(sys.modules, "ray", module)
    monkeypatch.delenv("RAY_USAGE_STATS_ENABLED", raising=False)
    return module


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"headswap\[ray\]"):
        connect(None, num_cpus=1)


def test_a_cluster_is_started_here_or_found_by_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    module = fake(monkeypatch)
    before = signal.getsignal(signal.SIGTERM)
    _, end = connect(None, num_cpus=3)
    assert module.given["address"] == "local"
    assert module.given["num_cpus"] == 3
    assert end is module.shutdown
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"
    assert signal.getsignal(signal.SIGTERM) is before, "a study handles requests to stop itself"
    module.given.clear()
    connect("pluto:6379", num_cpus=3)
    assert module.given["address"] == "pluto:6379"
    assert "num_cpus" not in module.given


def test_a_connection_that_the_process_has_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    module = fake(monkeypatch, is_initialized=True)
    found, end = connect("pluto:6379", num_cpus=3)
    assert found is module
    assert module.given == {}
    assert end is not module.shutdown


def test_no_cluster_at_an_address_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    fake(monkeypatch, problem=ConnectionError("nobody answers\nmore"))
    with pytest.raises(SettingError, match=r"no connection to a Ray cluster at pluto:1 \(nobody answers\)"):
        connect("pluto:1", num_cpus=1)
