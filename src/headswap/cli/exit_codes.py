"""How a command ends: the exit code, and a sentence instead of a traceback for every failure that a user can fix.

Data goes to standard output, messages to standard error. Exit codes: 0 done, 1 failed, 2 wrong use or input, 130
interrupted. A mistake of the user becomes a sentence; a traceback is a bug of headswap.
"""

import errno
import sys

from cyclopts import App, CycloptsError

from headswap.cli.app import VERBS, make_app, print_help
from headswap.cli.help_page import HELP_FLAGS, asked_page, entries_of
from headswap.cli.main import complain
from headswap.cli.streams import is_closed_pipe
from headswap.cli.wording import sentence_of, with_flags
from headswap.core.errors import HeadswapError

WRONG_PATH = (
    errno.ELOOP,
    errno.ENAMETOOLONG,
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.EEXIST,
    errno.ENOTDIR,
    errno.EISDIR,
)
LINK_LOOP = "Symlink loop from"


def run(argv: list[str]) -> int:
    """Run a command; every failure that a user can fix becomes a sentence on standard error."""
    for part in argv:
        if problem := _undecodable(part):
            return complain(problem, 2)
    if any(part == "--out=" or argv[at : at + 2] == ["--out", ""] for at, part in enumerate(argv)):
        return complain("--out is empty. Give a name.", 2)
    app = make_app()
    try:
        if (page := asked_page(argv)) is not None and (not argv or argv[0] in (*HELP_FLAGS, *VERBS)):
            return print_help(app, argv, everything=page == "--help-all")
        result = app(_standard_input_last(argv), exit_on_error=False, print_error=False, result_action="return_value")
        sys.stdout.flush()
    except HeadswapError as problem:
        return complain(with_flags(str(problem), _settings(app, argv)), problem.exit_code)
    except CycloptsError as problem:
        return complain(sentence_of(problem, argv, VERBS, _settings(app, argv)), 2)
    except (SystemExit, BrokenPipeError) as leaving:
        if not is_closed_pipe(leaving):
            raise
        return 0
    except (MemoryError, RuntimeError) as problem:
        if str(problem).startswith(LINK_LOOP):  # of Path.resolve
            return complain(f"{problem}. Remove the link, or give another path.", 2)
        if not _is_out_of_memory(problem):
            raise
        return complain("Out of memory. Pass fewer or shorter texts at a time, or use another --device.", 1)
    except OSError as problem:
        if problem.strerror is None:
            raise
        where = f"{problem.filename}: " if problem.filename else ""
        advice = " Choose another path." if problem.errno in WRONG_PATH else ""
        return complain(f"{where}{problem.strerror}.{advice}", 2 if advice else 1)
    return result if isinstance(result, int) and not isinstance(result, bool) else 0


def _settings(app: App, argv: list[str]) -> set[str]:
    """The settings that are flags of the command."""
    if not argv or argv[0] not in VERBS:
        return set()
    return {entry.name for entry in entries_of(app, argv[0]) if entry.group != "Arguments"}


def _undecodable(part: str) -> str | None:
    """What is wrong with an argument whose bytes are not UTF-8: it could not be written into a recipe."""
    try:
        part.encode()
    except UnicodeEncodeError as problem:
        shown = part.encode("ascii", "backslashreplace").decode()
        if (encoding := sys.getfilesystemencoding()).lower() not in ("utf-8", "utf8"):
            return (
                f"The argument {shown} cannot be read, because this environment encodes arguments as {encoding}. "
                "Set the environment variable PYTHONUTF8=1, or LC_ALL=C.UTF-8."
            )
        return (
            f"The argument {shown} contains U+{ord(part[problem.start]):04X}, which is not a character. "
            "Pass texts as UTF-8; rename a file or folder whose name is not UTF-8."
        )
    return None


def _is_out_of_memory(problem: BaseException) -> bool:
    """Whether the device or the host ran out of memory, found without importing torch (see training/failures.py)."""
    name = type(problem).__name__
    return name in ("MemoryError", "OutOfMemoryError") or "can't allocate memory" in str(problem)


def _standard_input_last(argv: list[str]) -> list[str]:
    """A lone - is standard input; cyclopts reads it as an option unless it comes after --."""
    lone = [at for at, part in enumerate(argv) if part == "-" and argv[at - 1] != "--file"]
    if not lone or "--" in argv:
        return argv
    return [part for at, part in enumerate(argv) if at not in lone] + ["--", *("-" for _ in lone)]
