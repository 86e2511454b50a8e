"""What a target of `headswap export` declares.

A new target is a class derived from `ExportTarget`, in a file of its own, and one line in `EXPORTS` (registry.py). Its
settings, if it has any, are fields of `ExportSettings` (config.py), and it names them in `uses`.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from headswap.bundle.bundle import Bundle
from headswap.core.atomic_folder import atomic_folder
from headswap.core.files import has_entry
from headswap.core.manifest import MANIFEST, write_manifest
from headswap.core.ownership import OwnFiles
from headswap.interop.config import ExportSettings


@dataclass(frozen=True)
class Exported:
    """The result of an export."""

    sentence: str
    """What was written and how it is loaded, for the user."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What `--json` prints beside the path and the target."""


class ExportTarget(ABC):
    """Writes a bundle in the format of another library."""

    files: ClassVar[tuple[str, ...]]
    """Paths that the target writes, relative to the folder; each part between slashes is a regular expression."""
    uses: ClassVar[tuple[str, ...]] = ()
    """Names of the fields of `ExportSettings` that the target uses."""

    @abstractmethod
    def write(self, bundle: Bundle, folder: Path, settings: ExportSettings) -> Exported:
        """Write all files into an existing, empty folder; a bundle that cannot be expressed is an `InputError`."""

    @classmethod
    def own_files(cls) -> OwnFiles:
        """Which files of an exported folder are headswap's."""
        return OwnFiles(
            files=(*cls.files, re.escape(MANIFEST)),
            is_ours=lambda folder: has_entry(folder / MANIFEST, "headswap_manifest"),
        )

    def export(self, bundle: Bundle, folder: Path, settings: ExportSettings) -> Exported:
        """Write the folder atomically, with a manifest."""
        with atomic_folder(folder, self.own_files()) as temporary:
            exported = self.write(bundle, temporary, settings)
            write_manifest(temporary)
        return exported
