"""The family of errors that users see.

An error message is a sentence: what is wrong with which value, where, what is allowed, what to do. The command line
prints it without a traceback and exits with `exit_code`. Any other exception is a bug in headswap.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

from headswap.core.terminal_text import one_line

MOST_PROBLEMS_SHOWN = 10
MOST_NEIGHBOURS = 2_000
MOST_MEANT = 3
NEAR_FILE = 0.75  # a higher cutoff than for settings: most folders have a name that is slightly similar


class HeadswapError(Exception):
    """A problem that the user can fix."""

    exit_code = 2


class InputError(HeadswapError):
    """A file, a text or a label is invalid."""


class SettingError(HeadswapError):
    """A flag, a recipe entry or an argument is not allowed."""


class MissingExtraError(HeadswapError):
    """An optional dependency is needed and is not installed."""

    def __init__(self, what: str, *, extra: str, package: str) -> None:
        super().__init__(f"{what} needs the package '{package}'. Install it with: pip install 'headswap[{extra}]'")


class RunError(HeadswapError):
    """A run was started with valid input and failed later."""

    exit_code = 1


def raise_problems(problems: Sequence[str], *, error: type[HeadswapError] = InputError, hint: str = "") -> None:
    """Raise all problems of one input as one error, with the hint at the end; do nothing if there are none."""
    if not problems:
        return
    shown = list(problems[:MOST_PROBLEMS_SHOWN])
    if len(problems) > len(shown):
        shown.append(f"... and {len(problems) - len(shown)} more.")
    if hint:
        shown.append(hint)
    raise error("\n".join(shown))


class Collected:
    """Collects the problems of several inputs, so that they are raised together."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Catch an `InputError` of the body and keep it."""
        try:
            yield
        except InputError as problem:
            self.problems.append(str(problem))

    def raise_found(self) -> None:
        """Raise the problems that were kept, if any."""
        raise_problems(self.problems)


def did_you_mean(given: str, allowed: Iterable[str]) -> str:
    """` Did you mean 'x'?` for a similar name, or for names with `given` as one of their words; otherwise ""."""
    names = list(allowed)
    near = get_close_matches(given, names, n=1, cutoff=0.6)
    with_word = [name for name in names if given in name.replace("-", "_").split("_")]
    if with_word and not set(near) - set(with_word):  # the similar name is one of several that have the word
        near = with_word[:MOST_MEANT]
    meant = "' or '".join(near)
    return f" Did you mean '{meant}'?" if near else ""


def absent(path: str | Path, *, names: Iterable[str] = ()) -> str:
    """`x.txt does not exist.`, with a similar name of the same folder or of `names`, or what to check."""
    path, names = Path(path), list(names)
    if path.is_symlink():
        return f"{path} is a symbolic link to {os.readlink(path)}, which does not exist or leads back to itself."
    folder = Path(os.path.expanduser(path)).parent
    if not folder.is_dir():
        hint = did_you_mean(str(path), names) or _what_to_check(path)
        return f"{path} does not exist; there is no folder {folder}.{hint}"
    try:
        beside = sorted(entry.name for entry in islice(folder.iterdir(), MOST_NEIGHBOURS))
    except OSError:  # the folder cannot be listed
        beside = []
    if near := get_close_matches(path.name, [*names, *beside], n=1, cutoff=NEAR_FILE):
        meant = near[0] if near[0] in names else path.parent / near[0]
        return f"{path} does not exist. Did you mean '{meant}'?"
    return f"{path} does not exist.{_what_to_check(path)}"


def _what_to_check(path: Path) -> str:
    """The sentence after a missing file that resembles no other one."""
    relative = "" if path.is_absolute() or str(path).startswith("~") else ", which is relative to the current folder"
    return f" Check the path{relative}."


def counted(number: int, noun: str) -> str:
    """`1 text`, `1,200 texts`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(names: Iterable[object], *, most: int = 8) -> str:
    """`'a', 'b', 'c' and 4 more`, as part of a sentence."""
    every = [f"'{one_line(name)}'" for name in names]
    if len(every) <= most:
        return ", ".join(every)
    return f"{', '.join(every[:most])} and {len(every) - most} more"
