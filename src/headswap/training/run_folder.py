"""The run folder: all files of one training run.

`recipe.toml`, `environment.json`, `data.json` (checksums of the inputs), `metrics.jsonl`, `ledger.json`,
`checkpoints/`, `bundle/`, `predictions.npz` (of the test set), `result.json`. `open_run` checks whether a run may start
or resume in a folder; `RunFolder` reads and writes the files.
"""

import json
import logging
import os
import re
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from headswap.bundle.bundle import LAYOUT as BUNDLE
from headswap.core.errors import InputError, SettingError, listed
from headswap.core.files import atomic_file, discard_folder, read_json, remove_folder, restore_folder, write_json
from headswap.core.lock import LOCK_FILE, FolderLock
from headswap.core.outputs import check_apart, check_writable
from headswap.core.ownership import Layout, check_replaceable, foreign_in, is_unfinished, leftovers
from headswap.core.settings import Recipe
from headswap.training.checkpoint import LAYOUT as CHECKPOINT
from headswap.training.checkpoint import find_checkpoints
from headswap.training.resume_rules import check_given, check_unchanged, log_changed_environment, read_record

log = logging.getLogger("headswap")
OWN_FILES = {"recipe.toml", "environment.json", "data.json", "metrics.jsonl", "ledger.json", "result.json"}
OWN_FILES |= {"predictions.npz"}
REMOVED_LAST = "recipe.toml"
"""While it is there, a half-removed run is still recognised as a run."""


def _is_run(folder: Path) -> bool:
    """Whether a folder is empty or holds a run; a folder with nothing but a recipe may be the user's."""
    names = set(_visible(folder))
    return not names or (REMOVED_LAST in names and len(names) > 1) or bool(find_checkpoints(folder / "checkpoints"))


LAYOUT = Layout(
    files=(
        *map(re.escape, (*sorted(OWN_FILES), LOCK_FILE)),
        *(f"bundle/{name}" for name in BUNDLE.files),
        *(rf"checkpoints/(?:(?:step|best)-\d+|last)/{name}" for name in CHECKPOINT.files),
    ),
    links=("checkpoints/last",),
    is_ours=_is_run,
)


class RunFolder:
    """A run folder, finished or not."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.replaces_another = False
        self.resumes = False
        self.is_made_longer = False
        self._lock = FolderLock(self.path)

    def __repr__(self) -> str:
        return f"RunFolder({str(self.path)!r})"

    def __fspath__(self) -> str:
        return str(self.path)

    @property
    def is_finished(self) -> bool:
        """Whether the run is complete."""
        is_complete = (self.path / "result.json").is_file()
        return is_complete and not self.replaces_another and not self.is_made_longer

    @property
    def result(self) -> dict[str, Any]:
        """Final metrics, steps, tokens, seconds, tokens per second, peak memory."""
        return read_json(self.path / "result.json")

    def metrics(self) -> list[dict[str, Any]]:
        """All lines of `metrics.jsonl`."""
        file = self.path / "metrics.jsonl"
        if not file.exists():
            raise InputError(
                f"{self.path} has no metrics.jsonl, so it is not a run folder. Give the folder of a training run."
            )
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]

    def append_metrics(self, line: dict[str, Any]) -> None:
        """Add a line to `metrics.jsonl`."""
        with (self.path / "metrics.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def flush_metrics(self) -> None:
        """Flush the lines written so far to the disk."""
        with (self.path / "metrics.jsonl").open("ab") as file:
            os.fsync(file.fileno())

    def cut_metrics(self, last_step: int) -> None:
        """Remove the lines after a step; a resumed run writes them again."""
        file = self.path / "metrics.jsonl"
        lines = file.read_text(encoding="utf-8").splitlines(keepends=True) if file.exists() else []
        kept = list(takewhile(_is_complete, lines))
        kept = [line for line in kept if json.loads(line)["step"] <= last_step]
        with atomic_file(file) as temporary:
            temporary.write_text("".join(kept), encoding="utf-8")

    def begin(self, recipe: Recipe, environment: dict[str, Any], data: dict[str, str]) -> None:
        """Create and lock the folder and write recipe, environment and checksums; call it after all other checks."""
        self.path.mkdir(parents=True, exist_ok=True)
        self._lock.take()
        if self.replaces_another:
            self._clear()
            self.replaces_another = False
        elif not self.resumes and _visible(self.path):
            raise SettingError(
                f"--out {self.path} is not empty any more: another run started there. Choose another folder."
            )
        is_made_longer = check_unchanged(self.path, recipe)
        self.check_data(data)
        log_changed_environment(self.path, environment)
        restore_folder(self.path / "bundle", BUNDLE)
        for leftover in leftovers(self.path, LAYOUT):  # of a killed process
            remove_folder(leftover)
        if is_made_longer:
            (self.path / "result.json").unlink(missing_ok=True)
        self.is_made_longer = False
        recipe.save(self.path / "recipe.toml")
        self.write("environment.json", environment)
        self.write("data.json", data)

    def _clear(self) -> None:
        """Remove the run that is replaced; what a kill leaves of it never becomes part of the new run."""
        check_replaceable(self.path, LAYOUT)  # again, because other processes may have written there since
        for name in [*sorted(set(_visible(self.path)) - {REMOVED_LAST}), REMOVED_LAST]:
            discard_folder(self.path / name)

    def release(self) -> None:
        """Release the lock of the folder."""
        self._lock.release()

    def check_data(self, data: dict[str, str]) -> None:
        """Raise an error if an input changed since the run started; `data` maps each input to its checksum."""
        before = read_record(self.path / "data.json") or data
        changed = [name for name in data if before.get(name) != data[name]]
        if changed:
            raise SettingError(
                f"The {' and the '.join(changed)} changed since {self.path} was started, so it cannot be resumed. "
                "Restore the files, or start again with another --out or with --overwrite."
            )

    def write(self, name: str, value: Any) -> None:
        """Write one of the JSON files of the folder."""
        write_json(self.path / name, value)


def open_run(
    out: str | Path,
    recipe: Any,
    *,
    overwrite: bool = False,
    resume: bool = False,
    reads: Sequence[str] = (),
) -> RunFolder:
    """The run to start or resume. Raises an error if the folder holds anything else; writes nothing."""
    run = RunFolder(out)
    if overwrite and resume:
        raise SettingError(
            "--overwrite and --resume are both given. Use --overwrite to replace the run, or --resume to continue it."
        )
    check_apart(run.path, reads)
    if run.path.is_file():
        raise SettingError(f"--out {run.path} is a file. Give a folder.")
    run._lock.check()
    visible = _visible(run.path)
    if visible and not (overwrite or resume):
        raise SettingError(
            f"--out {run.path} is not empty. Choose another folder, continue the run with --resume, "
            "or replace it with --overwrite."
        )
    if overwrite:
        check_replaceable(run.path, LAYOUT)
    replaced = [name for name in foreign_in(run.path, LAYOUT) if name.startswith(("bundle/", "checkpoints/"))]
    if resume and replaced:  # a resumed run replaces its bundle and old checkpoints
        raise SettingError(
            f"--resume could remove {listed(replaced)} from {run.path}, which headswap did not write there. "
            "Move it away first."
        )
    run.replaces_another, run.resumes = overwrite and bool(visible), resume
    if resume:
        run.is_made_longer = check_given(run.path, recipe)
    check_writable(run.path)
    return run


def _visible(path: Path) -> list[str]:
    """The names in a folder, without the lock and leftovers of killed processes."""
    names = sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []
    return [name for name in names if name != LOCK_FILE and not is_unfinished(name)]


def _is_complete(line: str) -> bool:
    """Whether a line of metrics was written completely."""
    try:
        return line.endswith("\n") and isinstance(json.loads(line)["step"], int)
    except (ValueError, KeyError, TypeError):
        return False
