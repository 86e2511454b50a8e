"""The run folder: all files of one training run.

`recipe.toml`, `environment.json`, `data.json` (checksums of the inputs), `metrics.jsonl`, `ledger.json`,
`checkpoints/`, `bundle/`, `predictions.npz` (of the test set), `result.json`, and `trackers/` with --report-to.
`open_run` checks whether a run may start or resume in a folder; `RunFolder` reads and writes the files.
"""

import json
import logging
import os
import re
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any

from headswap.bundle.bundle import OWN_FILES as BUNDLE
from headswap.core.atomic_folder import discard_folder, restore_folder
from headswap.core.errors import InputError, SettingError, listed
from headswap.core.files import atomic_file, read_json, remove_folder, write_json
from headswap.core.lock import LOCK_FILE, FolderLock
from headswap.core.manifest import MANIFEST
from headswap.core.outputs import check_apart, check_writable
from headswap.core.ownership import OwnFiles, check_replaceable, foreign_in, is_unfinished, leftovers
from headswap.core.settings import Recipe
from headswap.training.checkpoint import OWN_FILES as CHECKPOINT
from headswap.training.checkpoint import find_checkpoints
from headswap.training.resume_rules import check_given, check_unchanged, log_changed_environment, read_record

log = logging.getLogger("headswap")
FILES = {"recipe.toml", "environment.json", "data.json", "metrics.jsonl", "ledger.json", "result.json"}
FILES |= {"predictions.npz", MANIFEST}
METRICS = "metrics.jsonl"
TRACKERS_FOLDER = "trackers"
REMOVED_LAST = "recipe.toml"
"""While it is there, a half-removed run is still recognised as a run."""


def _is_run(folder: Path) -> bool:
    """Whether a folder is empty or holds a run; a folder with nothing but a recipe may be the user's."""
    names = set(_visible(folder))
    return not names or (REMOVED_LAST in names and len(names) > 1) or bool(find_checkpoints(folder / "checkpoints"))


OWN_FILES = OwnFiles(
    files=(
        *map(re.escape, (*sorted(FILES), LOCK_FILE)),
        *(f"bundle/{name}" for name in BUNDLE.files),
        *(rf"checkpoints/(?:(?:step|best)-\d+|last)/{name}" for name in CHECKPOINT.files),
        *(
            f"{TRACKERS_FOLDER}/{name}"
            for name in (r"tensorboard/events\.out\.tfevents\..*", r"mlflow(?:-\d+)?\.(?:json|db.*)")
        ),
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
        file = self.path / "result.json"
        content = read_json(file)
        if not isinstance(content, dict) or "verb" not in content:
            raise InputError(f"{file} is damaged: it has no key `verb`. Restore it from a copy, or use --overwrite.")
        return content

    def metrics(self) -> list[dict[str, Any]]:
        """All complete lines of `metrics.jsonl`."""
        return read_metrics(self.path)

    def append_metrics(self, line: dict[str, Any]) -> None:
        """Add a line to `metrics.jsonl`."""
        with (self.path / METRICS).open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def flush_metrics(self) -> None:
        """Flush the lines written so far to the disk."""
        with (self.path / METRICS).open("ab") as file:
            os.fsync(file.fileno())

    def cut_metrics(self, last_step: int) -> None:
        """Remove the lines after a step; a resumed run writes them again."""
        file = self.path / METRICS
        lines = file.read_bytes().splitlines(keepends=True) if file.exists() else []
        whole = takewhile(lambda line: line.endswith(b"\n") and _metrics_of(line), lines)
        kept = [line for line in whole if json.loads(line)["step"] <= last_step]
        with atomic_file(file) as temporary:
            temporary.write_bytes(b"".join(kept))

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
        for leftover in leftovers(self.path, OWN_FILES):  # of a killed process
            remove_folder(leftover)
        if is_made_longer:
            (self.path / "result.json").unlink(missing_ok=True)
        self.is_made_longer = False
        recipe.save(self.path / "recipe.toml")
        self.write("environment.json", environment)
        self.write("data.json", data)

    def _clear(self) -> None:
        """Remove the run that is replaced; what a kill leaves of it never becomes part of the new run."""
        check_replaceable(self.path, OWN_FILES)  # again, because other processes may have written there since
        for name in [*sorted(set(_visible(self.path)) - {REMOVED_LAST}), REMOVED_LAST]:
            discard_folder(self.path / name)

    def release(self) -> None:
        """Release the lock of the folder."""
        self._lock.release()

    def check_data(self, data: dict[str, str]) -> None:
        """Raise an error if an input changed since the run started; `data` maps each input to its checksum."""
        has_begun = (self.path / "result.json").exists() or find_checkpoints(self.path / "checkpoints")
        before = read_record(self.path / "data.json") or ({} if has_begun else data)
        if changed := [name for name in data if name in before and before[name] != data[name]]:
            raise SettingError(
                f"The {' and the '.join(changed)} changed since {self.path} was started, so it cannot be resumed. "
                "Restore the files, or start again with another --out or with --overwrite."
            )
        if unknown := [name for name in data if name not in before]:
            raise SettingError(
                f"{self.path / 'data.json'} has no checksum of the {' and the '.join(unknown)}: the file was lost, or "
                "an older version of headswap started the run. Whether its inputs changed cannot be checked, so it "
                "cannot be resumed. Restore the file, or start again with another --out or with --overwrite."
            )

    def write(self, name: str, value: Any) -> None:
        """Write one of the JSON files of the folder; a manifest of checksums no longer describes the folder then."""
        (self.path / MANIFEST).unlink(missing_ok=True)
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
        check_replaceable(run.path, OWN_FILES)
    replaced = [name for name in foreign_in(run.path, OWN_FILES) if name.startswith(("bundle/", "checkpoints/"))]
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


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """All complete lines of `metrics.jsonl`. A broken last line, left by a process that was killed, is ignored."""
    file = folder / METRICS
    if not file.is_file():
        raise InputError(f"{folder} has no {METRICS}, so it is not a run folder. Give the folder of a training run.")
    raw = file.read_bytes().splitlines()
    lines = [_metrics_of(line) for line in raw]
    if lines and lines[-1] is None:
        lines.pop()
    found = [line for line in lines if line is not None]
    if len(found) < len(lines):
        raise InputError(f"{file} is damaged: line {lines.index(None) + 1} of {len(raw)} is not a line of metrics.")
    return found


def _metrics_of(line: bytes) -> dict[str, Any] | None:
    """One line of metrics; None where it is not complete."""
    try:
        content = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or not isinstance(content.get("step"), int):
        return None
    return content if isinstance(content.get("epoch"), int | float) or "skipped" in content else None
