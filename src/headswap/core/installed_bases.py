"""Installed bases: `box:NAME` is a bundle inside an installed Python package.

A package provides a base by an entry point of the group `headswap.bases`. The entry point has the name of the base and
refers to the path of the bundle folder, or to a function that returns it. docs/bases.md describes how to publish one.
This module maps names to folders and lists what is installed. Weights are loaded by bundle.py. Torch is
not imported.
"""

import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from headswap.core.errors import HeadswapError, InputError, did_you_mean, listed
from headswap.core.files import read_json
from headswap.core.manifest import manifest_problems

GROUP = "headswap.bases"
PREFIX = "box:"
OWN_BASE = "reviews-en-2"
CONFIG, WEIGHTS = "config.json", "model.safetensors"
OTHER_EDITIONS = ("reviews-en",)


@dataclass(frozen=True)
class BaseInfo:
    """An installed base as listed by `headswap bases`; values that its bundle does not record are None."""

    name: str
    package: str
    version: str
    path: str | None = None
    objective: str | None = None
    num_hidden_layers: int | None = None
    hidden_size: int | None = None
    vocab_size: int | None = None
    max_length: int | None = None
    parameters: int | None = None
    bytes: int | None = None
    """Size of the weights."""
    tokens: int | None = None
    """Tokens it was trained on, including repetitions."""
    held_out_loss: float | None = None
    held_out_bits_per_byte: float | None = None
    licence: str | None = None
    limits: str | None = None
    problem: str | None = None
    """Why it cannot be used."""

    def as_json(self) -> dict[str, Any]:
        """The entry for `--json`."""
        return asdict(self)


def is_boxed(name: str | os.PathLike[str]) -> bool:
    """Whether a name means an installed base. A file or folder of the same name takes precedence."""
    return str(name).startswith(PREFIX) and not Path(name).exists()


def base_folder(name: str | os.PathLike[str]) -> Path:
    """The bundle folder of `box:NAME`; an `InputError` if the base is missing or broken."""
    wanted = str(name).removeprefix(PREFIX)
    found = [point for point in _entry_points() if point.name == wanted]
    if not found:
        raise InputError(_missing(wanted))
    if len(found) > 1:
        packages = listed(sorted(_package(point) for point in found))
        raise InputError(f"Several packages provide a base '{wanted}': {packages}. Uninstall all but one of them.")
    return _folder(found[0])


def checked_base(name: str | os.PathLike[str]) -> Path:
    """The bundle folder of `box:NAME`, after the checksums of all its files were verified."""
    folder = base_folder(name)
    if problems := manifest_problems(folder):
        raise InputError(f"{name} differs from what was packaged. {' '.join(problems)} Install its package again.")
    return folder


def list_bases() -> list[BaseInfo]:
    """All installed bases, sorted by name; a broken base is listed with its problem."""
    return sorted((_info(point) for point in _entry_points()), key=lambda info: (info.name, info.package))


def _entry_points() -> Iterable[EntryPoint]:
    return entry_points(group=GROUP)


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist else "an unknown package"


def own_package(name: str) -> str:
    """How to install a base of headswap itself."""
    return (
        f"It is part of the package headswap-base-{name}. In a checkout of headswap, install it with: "
        f"pip install ./bases/{name}"
    )


def _missing(wanted: str) -> str:
    names = sorted({point.name for point in _entry_points()})
    installed = f"Installed bases: {listed(names)}." if names else "No base is installed."
    elsewhere = f"Install the package that provides it, by convention headswap-base-{wanted}."
    how = own_package(wanted) if wanted in (OWN_BASE, *OTHER_EDITIONS) else elsewhere
    return f"The base '{wanted}' is not installed. {installed}{did_you_mean(wanted, names)} {how}"


def _folder(point: EntryPoint) -> Path:
    """The folder that an entry point refers to; an `InputError` if it is not usable."""
    base = f"The base '{point.name}' of {_package(point)}"
    try:
        found = point.load()
        found = found() if callable(found) else found
    except HeadswapError as problem:
        raise InputError(f"{base} cannot be used. {problem}") from None
    except (Exception, SystemExit) as problem:  # code of other packages may raise anything
        reason = f"{type(problem).__name__}: {problem}".rstrip(": ")
        raise InputError(
            f"{base} cannot be used: its entry point {point.value} raised {reason}. "
            "Install it again, or report this to its maintainer."
        ) from None
    if not isinstance(found, str | os.PathLike) or not Path(found).is_absolute():
        raise InputError(
            f"{base} cannot be used: its entry point {point.value} returns {found!r}, not an absolute path. "
            "Report this to its maintainer."
        )
    folder = Path(found)
    if not (folder / CONFIG).is_file():
        what = "is not a bundle (it has no config.json)" if folder.exists() else "does not exist"
        raise InputError(
            f"{base} has no weights: {folder} {what}. Install it again, or build it as described in its README."
        )
    return folder


def _info(point: EntryPoint) -> BaseInfo:
    package, version = _package(point), point.dist.version if point.dist else ""
    try:
        folder = _folder(point)
        if problems := manifest_problems(folder, contents=False):
            raise InputError(" ".join(problems))
        return BaseInfo(point.name, package, version, str(folder), **_described(folder))
    except HeadswapError as problem:
        return BaseInfo(point.name, package, version, problem=str(problem))


def _described(folder: Path) -> dict[str, Any]:
    """The values of `BaseInfo` that are in the bundle's config.json and card."""
    config = read_json(folder / CONFIG)
    if not isinstance(config, dict):
        raise InputError(
            f"{folder / CONFIG} is JSON, but not an object, so it describes no model. Install the package again."
        )
    card = config.get("card")
    card = card if isinstance(card, dict) else {}
    return {
        "objective": config.get("objective"),
        **{name: config.get(name) for name in ("num_hidden_layers", "hidden_size", "vocab_size")},
        "max_length": config.get("max_position_embeddings"),
        "parameters": card.get("parameters"),
        "bytes": (folder / WEIGHTS).stat().st_size if (folder / WEIGHTS).is_file() else None,
        "tokens": card.get("tokens read"),
        "held_out_loss": card.get("held-out loss"),
        "held_out_bits_per_byte": card.get("held-out bits per byte"),
        "licence": card.get("licence"),
        "limits": card.get("limits"),
    }
