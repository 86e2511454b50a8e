"""The way in: what the command `headswap`, `python -m headswap` and torchrun start.

Imports the verbs inside its `try`, so that Ctrl-C is a sentence from the first moment on. All else is left to app.py.
"""

import signal
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run the verb of the command line and leave with its exit code."""
    try:
        signal.signal(signal.SIGTERM, _interrupt)
        from headswap.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        code = complain("Interrupted.", 130)
    sys.exit(code)


def _interrupt(_number: int, _frame: object) -> NoReturn:
    """SIGTERM ends a verb as Ctrl-C does, so that it can clean up; a training run saves first, see drive.py."""
    raise KeyboardInterrupt


def complain(message: str, code: int) -> int:
    """Say what is wrong on standard error; gives the exit code back."""
    print(f"headswap: {message}", file=sys.stderr)
    return code
