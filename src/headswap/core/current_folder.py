"""Python files in the current folder are the user's data: no Python that headswap starts imports them.

`python -c` and `python -m` put the current folder first on `sys.path`, so that a `json.py` beside the data would be
imported in place of the standard library's. The one exception is a checkout whose `src` is the current folder: there
headswap itself was imported from it. This module imports only what every Python has already imported when it starts.
"""

import os
import sys

HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""The folder that headswap was imported from."""


def new_python(*arguments: str) -> list[str]:
    """The command line of a new Python; `-P` leaves the current folder out of `sys.path`."""
    return [sys.executable, *([] if _is_current(HOME) else ["-P"]), *arguments]


def leave_out_current_folder() -> None:
    """Remove what `python -m` put first on `sys.path`; a part of PYTHONPATH that names the same folder stays."""
    if not sys.flags.safe_path and sys.path and _is_current(sys.path[0]) and not _is_current(HOME):
        del sys.path[0]


def _is_current(folder: str) -> bool:
    try:
        return os.path.samefile(folder or ".", ".")
    except OSError:  # one of the two is not there: the current folder can be removed while a program runs in it
        return False
