"""The entry point of the command `headswap`, of `python -m headswap` and of torchrun.

The verbs are imported inside the `try`, so that Ctrl-C during the imports prints a sentence too.
"""

import io
import signal
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the verb of the command line and exit with its code."""
    try:
        signal.signal(signal.SIGTERM, _interrupt)
        _escape_missing_characters()
        from headswap.cli.exit_codes import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = complain("Interrupted.", 130)
    sys.exit(code)


def _interrupt(_number: int, _frame: object) -> NoReturn:
    """SIGTERM ends a verb as Ctrl-C does, so that it can clean up (training/runner.py saves a checkpoint first)."""
    raise KeyboardInterrupt


def _escape_missing_characters() -> None:
    """Characters that the encoding of standard output lacks are written as \\u2581, as on standard error."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def complain(message: str, code: int) -> int:
    """Print an error on standard error; returns the exit code."""
    from headswap.core.terminal_text import visible  # imported late: see main

    print(f"headswap: {visible(message)}", file=sys.stderr)
    return code
