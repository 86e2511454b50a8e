"""The one family of errors that users see.

An error is a sentence: what is wrong with which value, where, what is allowed, what to do. The command line prints it
without a traceback and leaves with `exit_code`. Everything else that is raised is a defect of ours.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

MOST_PROBLEMS_SHOWN = 10
MOST_NEIGHBOURS = 2_000
MOST_MEANT = 3
NEAR_FILE = 0.75  # nearer than a setting: every folder has some name that is faintly alike


class HeadswapError(Exception):
    """Something the user can mend."""

    exit_code = 2


class InputError(HeadswapError):
    """A file, a text or a label is not as it must be."""


class SettingError(HeadswapError):
    """A flag, a recipe entry or an argument is not allowed."""


class MissingExtraError(HeadswapError):
    """A part of headswap that has to be installed first was asked for."""

    def __init__(self, what: str, *, extra: str, package: str) -> None:
        super().__init__(f"{what} needs the package '{package}'. Install it with: pip install 'headswap[{extra}]'")


class RunError(HeadswapError):
    """A run was started rightly and failed on its way."""

    exit_code = 1


def raise_problems(problems: Sequence[str], *, error: type[HeadswapError] = InputError, hint: str = "") -> None:
    """Raise all that was found wrong with one input at once, a hint last; do nothing if that is nothing."""
    if not problems:
        return
    shown = list(problems[:MOST_PROBLEMS_SHOWN])
    if len(problems) > len(shown):
        shown.append(f"... and {len(problems) - len(shown)} more.")
    if hint:
        shown.append(hint)
    raise error("\n".join(shown))


class Collected:
    """Several inputs, each tried in turn; what is wrong with any of them is raised together."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Keep an `InputError` of the body for later."""
        try:
            yield
        except InputError as problem:
            self.problems.append(str(problem))

    def raise_found(self) -> None:
        """Raise what was kept."""
        raise_problems(self.problems)


def did_you_mean(given: str, allowed: Iterable[str]) -> str:
    """` Did you mean 'x'?`, or nothing where no name is near: alike, or with the given word as a part of it."""
    names = list(allowed)
    near = get_close_matches(given, names, n=1, cutoff=0.6)
    near = near or [name for name in names if given in name.replace("-", "_").split("_")][:MOST_MEANT]
    meant = "' or '".join(near)
    return f" Did you mean '{meant}'?" if near else ""


def absent(path: str | Path, *, names: Iterable[str] = ()) -> str:
    """`x.txt does not exist.` and what may have been meant: a file beside it, or one of the other `names`."""
    path, names = Path(path), list(names)
    folder = path.expanduser().parent
    if not folder.is_dir():
        return f"{path} does not exist; there is no folder {folder}.{did_you_mean(str(path), names)}"
    try:
        beside = sorted(entry.name for entry in islice(folder.iterdir(), MOST_NEIGHBOURS))
    except OSError:  # a folder that cannot be listed
        beside = []
    if near := get_close_matches(path.name, [*names, *beside], n=1, cutoff=NEAR_FILE):
        meant = near[0] if near[0] in names else path.parent / near[0]
        return f"{path} does not exist. Did you mean '{meant}'?"
    return f"{path} does not exist."


def counted(number: int, noun: str) -> str:
    """`1 text`, `1,200 texts`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def listed(names: Iterable[object], *, most: int = 8) -> str:
    """`'a', 'b', 'c' and 4 more`, for use inside a sentence."""
    every = [f"'{name}'" for name in names]
    if len(every) <= most:
        return ", ".join(every)
    return f"{', '.join(every[:most])} and {len(every) - most} more"
