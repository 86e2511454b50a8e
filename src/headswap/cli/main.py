"""The entry point of the command `headswap`, of `python -m headswap` and of torchrun.

The commands are imported inside the `try`, so that Ctrl-C during the imports prints a sentence too.
"""

import signal
import sys
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
    sys.exit(code)


def _interrupt(_number: int, _frame: object) -> NoReturn:
    """SIGTERM and SIGHUP end a command as Ctrl-C does, so that it can clean up (training saves a checkpoint first)."""
    raise KeyboardInterrupt


def complain(message: str, code: int) -> int:
    """Print an error on standard error, under torchrun once for all processes; returns the exit code."""
    from headswap.core.terminal_text import visible  # imported late: see main

    if is_printed_here(message):
        print(f"headswap: {visible(message)}", file=sys.stderr)
    return code
