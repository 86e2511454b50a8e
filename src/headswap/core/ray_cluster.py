"""The connection to a Ray cluster: a running one by its address, or one that is started on this machine.

Ray is an optional package and is imported here only. Its usage statistics are switched off.
"""

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

from headswap.core.errors import MissingExtraError, SettingError


def connect(address: str | None, *, num_cpus: int) -> tuple[Any, Callable[[], None]]:
    """The module `ray`, connected, and a function that ends the connection.

    A connection that the process already has is used and kept. Without an address a cluster with `num_cpus` CPUs is
    started on this machine; it ends with the connection.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # jobs on the CPU see the GPUs, as without Ray
    try:
        import ray
    except ModuleNotFoundError:
        raise MissingExtraError("The executor ray", extra="ray", package="ray") from None
    if ray.is_initialized():
        return ray, lambda: None
    options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    if address is None:
        options |= {"address": "local", "num_cpus": num_cpus, "include_dashboard": False}
    else:
        options |= {"address": address}
    handlers = _signal_handlers()
    try:
        ray.init(**options)
    except (ConnectionError, RuntimeError, ValueError, TimeoutError) as problem:
        where = "on this machine" if address is None else f"at {address}"
        first_line = (str(problem).strip().splitlines() or [type(problem).__name__])[0]
        raise SettingError(
            f"There is no connection to a Ray cluster {where} ({first_line}). Start one with: ray start --head"
        ) from None
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
    return ray, ray.shutdown


def _signal_handlers() -> dict[int, Any]:
    """The handlers of this process, which Ray replaces."""
    if threading.current_thread() is not threading.main_thread():
        return {}
    return {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
