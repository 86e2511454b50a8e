"""Paths in the files that headswap writes: nothing about the folders of one machine is passed on.

Bundles, cards and results have the name of a base or file (`shared_name`). Recorded commands have paths relative to the
current folder or to the home folder (`local_path`). The recipe of a run is not part of a bundle and must find its
inputs from every folder, so it has paths as given, with `~/` for the home folder (`home_path`).
"""

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

HOME = "~/"
WEB = ("http://", "https://")
CHECKPOINT = "hf:"
"""Prefix of a public checkpoint, which may be a path (core/public_checkpoints.py)."""


def without_query(address: str) -> str:
    """An address without the query of a web address, which may be a signature; other texts as they are."""
    return address.partition("?")[0].partition("#")[0] if address.lower().startswith(WEB) else address


def shown_address(address: str) -> str:
    """A text for messages and records: the query of a web address is left out."""
    bare = without_query(address)
    return address if bare == address else f"{bare}?..."


def shown_addresses(value: Any) -> Any:
    """A value of a recipe (texts, lists, tables) with `shown_address` for every text."""
    return _with_each_text(value, shown_address)


def shared_name(given: str) -> str:
    """The name of a bundle or file for others: a relative path as given, of another path the last part.

    The bundle of a run folder has the name of the run. A public checkpoint keeps its prefix `hf:`; in a folder of this
    machine it has the name of the folder, so that it cannot be taken for `hf:OWNER/NAME`.
    """
    if given.lower().startswith(WEB):
        return without_query(given)
    if given.startswith(CHECKPOINT):
        name = given.removeprefix(CHECKPOINT)
        return CHECKPOINT + (Path(name).resolve().name if os.path.isdir(name) else shared_name(name))
    if not os.path.isabs(given) and not given.startswith("~") and ".." not in Path(given).parts:
        return given
    place = Path(os.path.abspath(os.path.expanduser(given)))
    return place.parent.name if place.name == "bundle" else place.name


def shared_names(given: Iterable[str]) -> dict[str, str]:
    """The name of each of several bundles or files for others; two that differ have different names.

    Of paths that end alike, the name also has as many of the folders above as tell them apart.
    """
    ends = {one: _ends(one) for one in given}
    names: dict[str, str] = {}
    for one, own in ends.items():
        others = [other for other in ends.values() if other != own]
        names[one] = next((end for end in own if not any(end in other for other in others)), own[-1])
    for name in set(names.values()):  # web addresses that differ in their query, which is not shown
        alike = [one for one in names if names[one] == name and one.lower().startswith(WEB)]
        for number, one in enumerate(alike[1:], 2):
            names[one] = f"{name} ({number})"
    return names


def _ends(given: str) -> list[str]:
    """`shared_name`, and for a path that it shortens the same with more and more of the folders above."""
    name = shared_name(given)
    if name == given or given.lower().startswith(WEB):
        return [name]
    prefix = CHECKPOINT if given.startswith(CHECKPOINT) else ""
    place = Path(os.path.abspath(os.path.expanduser(given.removeprefix(prefix))))
    parts = (place.parent if place.name == "bundle" else place).parts[1:]
    return [name, *(prefix + "/".join(parts[-count:]) for count in range(2, len(parts) + 1))]


def local_path(given: str) -> str:
    """An absolute path as seen from the current folder: relative below it, `~/...` below the home folder, or `../...`.

    Other texts are returned as they are.
    """
    if given.startswith(CHECKPOINT):
        return CHECKPOINT + local_path(given.removeprefix(CHECKPOINT))
    if not _is_absolute_path(given):
        return given
    here, home = os.getcwd(), os.path.expanduser("~")
    if _is_below(given, here):
        return os.path.relpath(given, here)
    if _is_below(given, home):
        return HOME + os.path.relpath(given, home)
    return os.path.relpath(given, here)


def home_path(given: str) -> str:
    """An absolute path below the home folder as `~/...`; other texts as they are."""
    if given.startswith(CHECKPOINT):
        return CHECKPOINT + home_path(given.removeprefix(CHECKPOINT))
    home = os.path.expanduser("~")
    is_inside = _is_absolute_path(given) and _is_below(given, home)
    return HOME + os.path.relpath(given, home) if is_inside else given


def home_paths(value: Any) -> Any:
    """A value of a recipe (texts, lists, tables) with `home_path` for every text."""
    return _with_each_text(value, home_path)


def expanded_paths(value: Any) -> Any:
    """A value of a recipe with the home folder in place of a leading `~/`."""
    return _with_each_text(value, lambda text: os.path.expanduser(text) if text.startswith(HOME) else text)


def _with_each_text(value: Any, change: Callable[[str], str]) -> Any:
    """A text, list or table with every text in it changed; other values as they are."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {name: _with_each_text(part, change) for name, part in value.items()}
    return [_with_each_text(part, change) for part in value] if isinstance(value, list | tuple) else value


def local_command(argv: list[str]) -> list[str]:
    """A command line for a record: the program by its name, paths as seen from the current folder."""
    shown = [os.path.basename(argv[0])] if argv else []
    for part in argv[1:]:
        flag, sign, value = part.partition("=")
        is_pair = bool(sign) and flag.startswith("--")
        shown.append(f"{flag}={_recorded(value)}" if is_pair else _recorded(part))
    return shown


def _recorded(part: str) -> str:
    return ",".join(shown_address(local_path(one)) for one in part.split(",")) if "://" in part else local_path(part)


def _is_absolute_path(text: str) -> bool:
    """Whether a text is a path: a label separator may be a slash, too."""
    if not os.path.isabs(text) or "\n" in text or not text.strip("/"):
        return False
    return os.path.lexists(text) or os.path.isdir(os.path.dirname(text))


def _is_below(path: str, folder: str) -> bool:
    return folder != os.sep and os.path.abspath(path).startswith(folder.rstrip(os.sep) + os.sep)
