"""The entry point of the command `headswap`, of `python -m headswap` and of torchrun.

The commands are imported inside the `try`, so that Ctrl-C during the imports prints a sentence too.
"""

import atexit
import os
import signal
import sys
from contextlib import suppress
from typing import NoReturn

from headswap.cli.one_message import INTERRUPTED, is_printed_here
from headswap.cli.streams import drop_unwritten, prepare_streams
from headswap.core.stop_requests import termination_signals


def main() -> NoReturn:
    """Run the command that is given and exit with its code."""
    try:
        for number in termination_signals():
            signal.signal(number, _interrupt)
        prepare_streams()
        from headswap.cli.exit_codes import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = complain(INTERRUPTED, 130)
    finally:
        drop_unwritten()
    if "TORCHELASTIC_RUN_ID" in os.environ:
        _leave(code)
    sys.exit(code)


def _leave(code: int) -> NoReturn:
    """End a process of torchrun without the finalization of Python.

    FSDP keeps its process group after it was destroyed (torch 2.13). A thread of gloo that still holds a tensor during
    finalization aborts the process, after all work is done.
    """
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _interrupt(_number: int, _frame: object) -> NoReturn:
    """SIGTERM and SIGHUP end a command as Ctrl-C does, so that it can clean up (training saves a checkpoint first)."""
    raise KeyboardInterrupt


def complain(message: str, code: int) -> int:
    """Print an error on standard error, under torchrun once for all processes; returns the exit code."""
    from headswap.core.terminal_text import visible  # imported late: see main

    if is_printed_here(message):
        print(f"headswap: {visible(message)}", file=sys.stderr)
    return code
