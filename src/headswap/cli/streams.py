"""The standard streams of a command: all three are open, and a message that nobody can read ends nothing.

A shell can close a stream (`2>&-`), the reader of a pipe can leave, a terminal can be closed, a disk can be full. A
message that cannot be written is dropped: it must not end a training. Data that cannot be written is an error.
"""

import io
import os
import sys
from contextlib import suppress
from typing import Any

STANDARD_OUTPUT = "Standard output"
ESCAPED = "backslashreplace"


class _Messages(io.FileIO):
    """Standard error; what cannot be written is dropped."""

    def write(self, data: Any, /) -> int:
        with suppress(OSError):
            super().write(data)
        return len(memoryview(data))


class _Data(io.FileIO):
    """Standard output; an error has its name. A closed pipe stays a BrokenPipeError."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as problem:
            raise OSError(problem.errno, problem.strerror, STANDARD_OUTPUT) from None


def prepare_streams() -> None:
    """Open the closed streams, and replace standard output and error by the classes above."""
    for number in range(3):
        _open_if_closed(number)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - for the whole process
    sys.stdout = _text_stream(sys.stdout, _Data(1, "w", closefd=False))
    sys.stderr = _text_stream(sys.stderr, _Messages(2, "w", closefd=False))


def _open_if_closed(number: int) -> None:
    """Without this the next file that is opened would get the number of the closed stream."""
    try:
        os.fstat(number)
    except OSError:
        handle = os.open(os.devnull, os.O_RDONLY)  # writing fails, as on the closed stream
        if handle != number:
            os.dup2(handle, number)
            os.close(handle)


def _text_stream(stream: Any, raw: io.FileIO) -> Any:
    """A text stream on `raw` like the given one; characters that its encoding lacks are written as \\u2581."""
    if stream is None:
        return io.TextIOWrapper(io.BufferedWriter(raw), encoding="utf-8", errors=ESCAPED, line_buffering=True)
    if isinstance(stream, io.TextIOWrapper):
        if _number(stream) == raw.fileno():
            by_line = stream.line_buffering
            return io.TextIOWrapper(io.BufferedWriter(raw), stream.encoding, ESCAPED, line_buffering=by_line)
        stream.reconfigure(errors=ESCAPED)
    return stream  # another program has replaced it


def _number(stream: io.TextIOWrapper) -> int | None:
    try:
        return stream.fileno()
    except OSError:
        return None


def drop_unwritten() -> None:
    """Standard output is written as far as possible; nothing is left that Python would try to write at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def is_closed_pipe(problem: BaseException) -> bool:
    """Whether the reader of a pipe has left: the command then ends without a message and with the exit code 0."""
    first = problem.__context__ if isinstance(problem, SystemExit) else problem  # rich leaves in a help page
    return isinstance(first, BrokenPipeError)
