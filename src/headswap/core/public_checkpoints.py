"""Public checkpoints: `hf:FOLDER` or `hf:OWNER/NAME[@REVISION]`, as a folder on this computer.

A name is looked up in the cache of the Hugging Face Hub, whose folders are read without its library and without the
network. Only if downloads are allowed and the cache lacks the checkpoint, it is downloaded with `huggingface_hub`.
Where data are expected, `hf:` means a data set (data/hub_sets.py).
"""

import os
from pathlib import Path

from headswap.core.errors import InputError, MissingExtraError, absent
from headswap.core.local_paths import CHECKPOINT

PREFIX = CHECKPOINT
CONFIG = "config.json"
PATTERNS = ("*.json", "*.safetensors", "*.txt", "*.model", "README.md")
"""Files that are downloaded; pickles are not."""


def is_checkpoint(name: str | os.PathLike[str]) -> bool:
    """Whether a name means a public checkpoint. A file or folder of the same name takes precedence."""
    return str(name).startswith(PREFIX) and not Path(name).exists()


def checkpoint_folder(name: str | os.PathLike[str], *, allow_download: bool = False) -> Path:
    """The folder of a checkpoint; an `InputError` if it is not on this computer."""
    wanted = str(name).removeprefix(PREFIX)
    folder = Path(wanted).expanduser()
    if folder.is_dir():
        return _with_config(folder)
    if not wanted or wanted.startswith((".", "/", "~")) or wanted.count("/") > 1:
        raise InputError(f"The checkpoint {absent(folder)}")
    repository, _, revision = wanted.partition("@")
    cached = _cached(repository, revision or "main")
    if cached is not None:
        return _with_config(cached)
    if allow_download:
        return _with_config(_downloaded(repository, revision or None))
    raise InputError(
        f"The checkpoint {name} is neither a folder nor in the cache {hub_cache()}. Allow the download with "
        "--allow-download, or give a folder: hf:FOLDER."
    )


def hub_cache() -> Path:
    """The folder in which `huggingface_hub` keeps downloads."""
    for variable in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if found := os.environ.get(variable):
            return Path(found).expanduser()
    home = os.environ.get("HF_HOME")
    if not home:
        home = str(Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")) / "huggingface")
    return Path(home).expanduser() / "hub"


def _cached(repository: str, revision: str) -> Path | None:
    """The snapshot of a repository in the cache: of a branch or tag, or of a commit."""
    folder = hub_cache() / f"models--{repository.replace('/', '--')}"
    reference = folder / "refs" / revision
    commit = reference.read_text(encoding="utf-8").strip() if reference.is_file() else revision
    snapshot = folder / "snapshots" / commit
    return snapshot if (snapshot / CONFIG).is_file() else None


def _downloaded(repository: str, revision: str | None) -> Path:
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise MissingExtraError(f"Downloading hf:{repository}", extra="hf", package="huggingface_hub") from None
    try:
        return Path(snapshot_download(repository, revision=revision, allow_patterns=list(PATTERNS)))
    except Exception as problem:  # the library raises errors of several packages
        reason = str(problem).strip().splitlines()[0] if str(problem).strip() else type(problem).__name__
        raise InputError(f"The checkpoint hf:{repository} could not be downloaded: {reason}") from None


def _with_config(folder: Path) -> Path:
    if not (folder / CONFIG).is_file():
        raise InputError(f"{folder} is not a checkpoint: it has no {CONFIG}.")
    return folder
