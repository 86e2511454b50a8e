"""Inputs that a process keeps because it reads them again: rows and tokens in the workers of a study.

Nothing is kept unless `keep_inputs` is called, since a single run reads every input once. What is kept is found by its
content or by the state of its file, is never changed, and is bounded: the oldest entries are dropped.
"""

from collections.abc import Hashable
from pathlib import Path
from typing import Any, Generic, TypeVar

Value = TypeVar("Value")

_is_on = False


def keep_inputs(is_on: bool = True) -> None:
    """Keep inputs in this process from now on, or no longer."""
    global _is_on
    _is_on = is_on


def keeps_inputs() -> bool:
    """Whether this process keeps inputs."""
    return _is_on


class Kept(Generic[Value]):
    """Values by key, up to a total size; the oldest are dropped first."""

    def __init__(self, most: int) -> None:
        self.most, self.size = most, 0
        self._entries: dict[Hashable, tuple[Value, int]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: Hashable) -> Value | None:
        """The value of a key, if it is kept."""
        entry = self._entries.get(key)
        return None if entry is None else entry[0]

    def add(self, key: Hashable, value: Value, size: int) -> None:
        """Keep a value; one that is larger than the limit is not kept."""
        if not _is_on or size > self.most or key in self._entries:
            return
        self._entries[key] = (value, size)
        self.size += size
        while self.size > self.most:
            oldest = next(iter(self._entries))
            self.size -= self._entries.pop(oldest)[1]


def file_state(file: Path) -> tuple[Any, ...]:
    """Path, size and times of a file: while they stay the same, so does its content."""
    stat = file.stat()
    return str(file.resolve()), stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
