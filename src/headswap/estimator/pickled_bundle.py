"""A bundle as bytes: what the pickle of an estimator holds. No tensor is pickled; restoring needs no path."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from headswap.bundle.bundle import Bundle
from headswap.core.errors import InputError, raise_problems
from headswap.core.manifest import manifest_problems
from headswap.training.config import DeviceName
from headswap.training.device import device_of


def load_without_path(folder: str | Path, device: DeviceName) -> Bundle:
    """A bundle that does not depend on its folder, on a device."""
    return replace(Bundle.load(folder, device=device_of(device)), path=None)


def bundle_bytes(bundle: Bundle) -> dict[str, bytes]:
    """The files of the bundle by name."""
    with TemporaryDirectory(prefix="headswap-") as temporary:
        folder = Path(temporary) / "bundle"
        bundle.save(folder)
        return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def restored(files: Mapping[str, bytes], device: DeviceName) -> Bundle:
    """The bundle that these files are; damaged ones are an error."""
    with TemporaryDirectory(prefix="headswap-") as temporary:
        folder = Path(temporary)
        for name, content in files.items():
            if Path(name).name != name:
                raise InputError(f"The pickle has a file {name!r}, which is not part of a bundle. Do not use it.")
            (folder / name).write_bytes(content)
        raise_problems(manifest_problems(folder), hint="The pickle is damaged. Save the estimator again.")
        return load_without_path(folder, device)
