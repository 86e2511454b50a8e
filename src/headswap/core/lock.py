"""A lock on a folder, held by at most one process.

The operating system keeps the lock (flock), so it is released when the process ends, even if it is killed. The file
`.lock` contains the process number and the host of the holder and is removed on release. A `.lock` file that a killed
process left has no effect. A `.lock` that is a link, has hard links, or has other content is foreign: it is an error,
and it is never written to. On systems without flock (Windows) nothing is locked.
"""

import errno
import json
import logging
import os
import socket
import stat
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
    """The lock of one folder."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / LOCK_FILE
        self._handle: int | None = None

    def take(self) -> None:
        """Take the lock, or raise an error with the process that holds it."""
        if fcntl is None or self._handle is not None:
            return
        while True:
            handle = self._open(os.O_CREAT)
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
            if _is_still(self.file, handle):  # the last holder may have removed it meanwhile
                break
            os.close(handle)
        if not _is_ours(handle):
            os.close(handle)
            raise self._foreign("has other content than a lock file of headswap")
        os.ftruncate(handle, 0)
        os.write(handle, json.dumps({"process": os.getpid(), "host": socket.gethostname()}).encode())
        self._handle = handle

    def check(self) -> None:
        """Raise if another process holds the lock; writes nothing."""
        if fcntl is None or self._handle is not None or not os.path.lexists(self.file):
            return
        with suppress(FileNotFoundError, PermissionError):
            handle = self._open()
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise self._refusal(handle) from None
            finally:
                os.close(handle)

    def release(self) -> None:
        """Release the lock and remove its file."""
        if self._handle is not None:
            with suppress(OSError):
                if _is_still(self.file, self._handle):
                    self.file.unlink()
            os.close(self._handle)
            self._handle = None

    def _open(self, flags: int = 0) -> int:
        """Open the lock file; links are not followed."""
        try:
            handle = os.open(self.file, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | flags, 0o644)
        except OSError as problem:
            if problem.errno in (errno.ELOOP, errno.EMLINK):
                raise self._foreign("is a symbolic link") from None
            if problem.errno in (errno.EISDIR, errno.ENXIO):
                raise self._foreign("is not a regular file") from None
            raise
        state = os.fstat(handle)
        if not stat.S_ISREG(state.st_mode) or state.st_nlink > 1:
            os.close(handle)
            raise self._foreign("has hard links" if state.st_nlink > 1 else "is not a regular file")
        return handle

    def _foreign(self, what: str) -> SettingError:
        return SettingError(f"{self.file} {what}, so headswap did not write it. Remove it, or choose another folder.")

    def continue_with(self, other: "FolderLock") -> None:
        """Take over the lock of a folder that replaced this one; `other` locked it while it had a temporary name."""
        if self._handle is not None:
            os.close(self._handle)
        self._handle, other._handle = other._handle, None

    def _refusal(self, handle: int) -> SettingError:
        return SettingError(
            f"{self.file.parent} is in use{_holder(handle)}. Wait for that run, stop it, or choose another folder."
        )

    def __getstate__(self) -> dict[str, Any]:
        """State for pickling: a copy in another process does not hold the lock."""
        return {"file": self.file, "_handle": None}


def is_held(file: Path) -> bool:
    """Whether any process holds a lock on a file; writes nothing."""
    if fcntl is None:
        return False
    try:
        handle = os.open(file, os.O_RDWR)
    except OSError:  # it was removed, or is not writable
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(handle)
    return False


def _holder(handle: int) -> str:
    """` (process 4711 on pluto)` if the file contains it, else an empty string."""
    try:
        content = json.loads(os.pread(handle, 1000, 0))
        return f" (process {content['process']} on {content['host']})"
    except (ValueError, KeyError, TypeError):
        return ""


def _is_ours(handle: int) -> bool:
    """Whether a file is empty or contains a holder."""
    return os.fstat(handle).st_size == 0 or _holder(handle) != ""


def _is_still(file: Path, handle: int) -> bool:
    try:
        return os.path.samestat(os.lstat(file), os.fstat(handle))
    except FileNotFoundError:
        return False
