"""The way in: what the command `headswap`, `python -m headswap` and torchrun start.

Imports the verbs inside its `try`, so that Ctrl-C is a sentence from the first moment on. All else is left to app.py.
"""

import io
import signal
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the verb of the command line and leave with its exit code."""
    try:
        signal.signal(signal.SIGTERM, _interrupt)
        _show_every_character()
        from headswap.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = complain("Interrupted.", 130)
    sys.exit(code)


def _interrupt(_number: int, _frame: object) -> NoReturn:
    """SIGTERM ends a verb as Ctrl-C does, so that it can clean up; a training run saves first, see drive.py."""
    raise KeyboardInterrupt


def _show_every_character() -> None:
    """Let standard output write what its encoding lacks as \\u2581, as standard error does, and not raise."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors == "strict":
        sys.stdout.reconfigure(errors="backslashreplace")


def complain(message: str, code: int) -> int:
    """Say what is wrong on standard error; gives the exit code back."""
    print(f"headswap: {message}", file=sys.stderr)
    return code
