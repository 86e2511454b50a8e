"""What work on another machine needs besides its files: the current folder, variables, the versions of packages."""

import os
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from headswap import __version__

PREFIX = "HEADSWAP_"
"""Environment variables with this prefix are those of the process that gives the work."""


def _version_of(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


@dataclass(frozen=True)
class Surroundings:
    """Those of the process that gives the work; they are sent to the process that does it."""

    folder: str = field(default_factory=os.getcwd)
    variables: dict[str, str] = field(
        default_factory=lambda: {name: value for name, value in os.environ.items() if name.startswith(PREFIX)}
    )
    versions: tuple[str, str, str] = field(
        default_factory=lambda: (__version__, _version_of("torch"), _version_of("tokenizers"))
    )

    def problem_here(self, *places: Path) -> str | None:
        """Why this machine cannot do the work, which reads these files or folders; None if it can."""
        host = os.uname().nodename if hasattr(os, "uname") else "of the work"
        if self.versions != (here := Surroundings().versions):
            mine, theirs = (f"headswap {one}, torch {two} and tokenizers {three}" for one, two, three in
                            (here, self.versions))  # fmt: skip
            return f"The machine {host} has {mine}, but {theirs} are needed. Install the same versions on all machines."
        for place in (*places, Path(self.folder)):
            if not place.exists():
                return (
                    f"The machine {host} cannot read {place}. The outputs, the data and the current folder must be in "
                    "folders that all machines share."
                )
        return None

    def enter(self) -> None:
        """Make this process as the one that gives the work."""
        os.chdir(self.folder)
        os.environ.update(self.variables)
