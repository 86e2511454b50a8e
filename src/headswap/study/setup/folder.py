"""The folder of a study: its files, its lock, and how a new study replaces an old one.

With `--overwrite` the new study is prepared in a temporary folder next to the old one. The two folders are exchanged
only after the new one is complete, so an error or a kill leaves either the old study or the new one.
"""

import glob
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from headswap.core.atomic_folder import atomic_folder, remove_leftovers, restore_folder
from headswap.core.errors import SettingError, listed
from headswap.core.lock import LOCK_FILE, FolderLock, is_held
from headswap.core.outputs import check_writable
from headswap.core.ownership import OwnFiles, is_unfinished
from headswap.training.run_folder import OWN_FILES as RUN

RECIPE, PLAN, DESIGN, DATA, LOGS, ROWS = "study.toml", "plan.json", "design.json", "data", "logs", "rows"
FILES = {"report.html", "report.md", "results.csv", "results.json"}
OWN = {RECIPE, PLAN, DESIGN, DATA, "runs", LOGS, ROWS, "figures", *FILES}
DATA_FILES = OwnFiles(files=(".+",))
OWN_FILES = OwnFiles(
    files=(
        *(re.escape(name) for name in (RECIPE, PLAN, DESIGN, LOCK_FILE, *sorted(FILES))),
        *(f"{folder}/.+" for folder in (DATA, LOGS, ROWS, "figures")),
        *(f"runs/.+/{name}" for name in (*RUN.files, r"tokenizer\.json", r"sentencepiece\.model", r"manifest\.json")),
    ),
    links=tuple(f"runs/.+/{name}" for name in RUN.links),
)


@contextmanager
def locked_folder(out: Path) -> Iterator[FolderLock]:
    """Create and lock the folder: two studies in one folder at the same time would run each job twice."""
    if out.is_file():
        raise SettingError(f"--out {out} is a file. Give a folder.")
    check_writable(out)
    target = out.resolve()
    if not target.exists():
        restore_folder(target, OWN_FILES)
    target.mkdir(parents=True, exist_ok=True)
    lock = FolderLock(out)
    lock.take()
    try:
        restore_folder(target, OWN_FILES)
        remove_leftovers(target, OWN_FILES)
        remove_leftovers(target / DATA, DATA_FILES)
        yield lock
    finally:
        lock.release()
        with suppress(OSError):  # a study that could not start leaves no empty folder
            target.rmdir()


def holds_study(out: Path, *, overwrite: bool) -> bool:
    """Whether the folder holds a study; files that no study wrote are an error."""
    names = sorted(entry.name for entry in out.iterdir() if entry.name != LOCK_FILE and not is_unfinished(entry.name))
    if all(name.startswith(".") for name in names):
        return False
    foreign = [name for name in names if name not in OWN]
    if overwrite and foreign:
        raise SettingError(
            f"--overwrite would remove {listed(foreign)} from {out}, which no study wrote. Move it away."
        )
    if not overwrite and not {RECIPE, DATA} & set(names):
        raise SettingError(f"--out {out} is not empty and holds no study. Choose another folder.")
    return True


def check_corpus_outside(out: Path, corpus: Iterable[str]) -> None:
    """Refuse a corpus folder that contains the study: the rows of the study would be read as corpus."""
    target = out.resolve()
    for source in corpus:
        if (folder := Path(os.path.expanduser(source))).is_dir() and folder.resolve() in target.parents:
            raise SettingError(
                f"--out {out} is inside the corpus folder {source}, so the study would read its own files as corpus. "
                "Choose a folder outside the corpus."
            )


def check_replaceable(out: Path, reads: Iterable[str]) -> None:
    """Refuse to replace a study that is in use: by a running job, as input, or as the current folder."""
    target = out.resolve()
    if target in (Path.cwd(), *Path.cwd().parents):
        raise SettingError(
            f"--overwrite would remove the current folder, {Path.cwd()}. Run the command from another folder."
        )
    for name in reads:
        for place in [name, *glob.glob(os.path.expanduser(name), recursive=True)]:
            path = Path(os.path.expanduser(place)).resolve()
            if target in (path, *path.parents):
                raise SettingError(f"--overwrite would remove {place}, which this study reads. Choose another --out.")
    if held := [file for file in sorted((target / LOGS).glob("*.lock")) if is_held(file)]:
        raise SettingError(
            f"A job of the study in {out} is still running ({held[0].stem}). It stops when its study has stopped. "
            "Wait for it, or choose another folder."
        )
    if not os.access(target.parent, os.W_OK) or target.is_mount():
        raise SettingError(
            f"--overwrite cannot replace {out}: the folder cannot be renamed inside {target.parent}. "
            "Choose another folder."
        )


@contextmanager
def replacement(out: Path, lock: FolderLock) -> Iterator[Path]:
    """Yield a temporary folder that replaces the study at the end, or is removed if the body fails."""
    with ExitStack() as stack:
        with atomic_folder(out.resolve(), OWN_FILES) as folder:
            new_lock = FolderLock(folder)
            new_lock.take()  # before another process can lock the new folder
            stack.callback(new_lock.release)
            yield folder
        lock.continue_with(new_lock)
