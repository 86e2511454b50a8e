"""A lock on a folder that a dead process does not hold.

The operating system keeps it (flock), so it ends with its process, however that ends. The file `.lock` says who holds
it and is removed at the end; one that was left behind by a killed process stops nobody. Where there is no flock
(Windows) nothing is locked.
"""

import json
import logging
import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any

from headswap.core.errors import SettingError

fcntl: Any
try:
    import fcntl
except ModuleNotFoundError:  # Windows
    fcntl = None

LOCK_FILE = ".lock"
log = logging.getLogger("headswap")


class FolderLock:
    """Held by at most one process at a time."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / LOCK_FILE
        self._handle: int | None = None

    def take(self) -> None:
        """Take the lock, or raise a sentence that says who has it."""
        if fcntl is None or self._handle is not None:
            return
        while True:
            handle = os.open(self.file, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                refusal = self._refusal(handle)
                os.close(handle)
                raise refusal from None
            except OSError as problem:  # a file system without locks
                os.close(handle)
                log.info("%s cannot be locked (%s).", self.file.parent, problem.strerror)
                return
            if _is_still(self.file, handle):  # its last holder may have removed it in between
                break
            os.close(handle)
        os.ftruncate(handle, 0)
        os.write(handle, json.dumps({"process": os.getpid(), "host": socket.gethostname()}).encode())
        self._handle = handle

    def check(self) -> None:
        """Raise if another process holds the lock; writes nothing."""
        if fcntl is None or self._handle is not None or not self.file.exists():
            return
        with suppress(FileNotFoundError, PermissionError):
            handle = os.open(self.file, os.O_RDWR)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise self._refusal(handle) from None
            finally:
                os.close(handle)

    def release(self) -> None:
        """Let go, and leave no file behind."""
        if self._handle is not None:
            with suppress(OSError):
                self.file.unlink()
            os.close(self._handle)
            self._handle = None

    def _refusal(self, handle: int) -> SettingError:
        return SettingError(
            f"{self.file.parent} is in use{_holder(handle)}. Wait for its run or stop it, or choose another folder."
        )

    def __getstate__(self) -> dict[str, Any]:
        """A copy in another process holds nothing."""
        return {"file": self.file, "_handle": None}


def _holder(handle: int) -> str:
    """` (process 4711 on pluto)`, where the file says so."""
    try:
        content = json.loads(os.pread(handle, 1000, 0))
        return f" (process {content['process']} on {content['host']})"
    except (ValueError, KeyError, TypeError):
        return ""


def _is_still(file: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.stat(file), os.fstat(handle))
    except FileNotFoundError:
        return False
