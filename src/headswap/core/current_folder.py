"""Keep Python files of the current folder from being imported: they are data of the user.

`python -c` and `python -m` put the current folder first on `sys.path`, so a `json.py` next to the data would be
imported instead of the standard library's. One exception: if the current folder is the `src` of a checkout, headswap
itself is imported from it. This module imports only what every Python process has imported at its start.
"""

import os
import sys

HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
"""The folder from which headswap was imported."""


def new_python(*arguments: str) -> list[str]:
    """The command line of a new Python process; `-P` keeps the current folder out of `sys.path`."""
    return [sys.executable, *([] if _is_current(HOME) else ["-P"]), *arguments]


def leave_out_current_folder() -> None:
    """Remove the entry that `python -m` put first on `sys.path`; the same folder in PYTHONPATH is kept."""
    if not sys.flags.safe_path and sys.path and _is_current(sys.path[0]) and not _is_current(HOME):
        del sys.path[0]


def _is_current(folder: str) -> bool:
    try:
        return os.path.samefile(folder or ".", ".")
    except OSError:  # one of the two does not exist: the current folder can be removed while a process runs in it
        return False
