"""The folder of a study: what is in it, which process may write to it, and how a new study replaces an old one.

With `--overwrite` the new study is prepared in a temporary folder beside the old one. The two folders are exchanged
only after the new one is complete, so an error or a kill leaves either the old study or the new one.
"""

import glob
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from headswap.core.errors import SettingError, listed
from headswap.core.files import atomic_folder, remove_leftovers, restore_folder
from headswap.core.lock import LOCK_FILE, FolderLock, is_held
from headswap.core.ownership import Layout, is_unfinished
from headswap.training.run_folder import LAYOUT as RUN

RECIPE, PLAN, DATA, LOGS = "study.toml", "plan.json", "data", "logs"
FILES = {"report.html", "report.md", "results.csv", "results.json"}
OWN = {RECIPE, PLAN, DATA, "runs", LOGS, "figures", *FILES}
JOB_FILES = ("tokenizer.json", "sentencepiece.model", "manifest.json")
"""What jobs write that are no training."""
DATA_LAYOUT = Layout(files=(".+",))
LAYOUT = Layout(
    files=(
        *(re.escape(name) for name in (RECIPE, PLAN, LOCK_FILE, *sorted(FILES))),
        *(f"{folder}/.+" for folder in (DATA, LOGS, "figures")),
        *(f"runs/.+/{name}" for name in (*RUN.files, r"tokenizer\.json", r"sentencepiece\.model", r"manifest\.json")),
    ),
    links=tuple(f"runs/.+/{name}" for name in RUN.links),
)


@contextmanager
def alone_in(out: Path) -> Iterator[FolderLock]:
    """Make and lock the folder: two studies at once in one folder would do each job twice."""
    if out.is_file():
        raise SettingError(f"--out {out} is a file. Give a folder.")
    target = out.resolve()
    if not target.exists():
        restore_folder(target, LAYOUT)
    target.mkdir(parents=True, exist_ok=True)
    lock = FolderLock(out)
    lock.take()
    try:
        restore_folder(target, LAYOUT)
        remove_leftovers(target, LAYOUT)
        remove_leftovers(target / DATA, DATA_LAYOUT)
        yield lock
    finally:
        lock.release()
        with suppress(OSError):  # a study that could not begin leaves no folder
            target.rmdir()


def holds_study(out: Path, *, overwrite: bool) -> bool:
    """Whether there is a study in the folder; files that no study made are an error."""
    names = sorted(entry.name for entry in out.iterdir() if entry.name != LOCK_FILE and not is_unfinished(entry.name))
    if all(name.startswith(".") for name in names):
        return False
    foreign = [name for name in names if name not in OWN]
    if overwrite and foreign:
        raise SettingError(f"--overwrite would remove {listed(foreign)} from {out}, which no study made. Move it away.")
    if not overwrite and not {RECIPE, DATA} & set(names):
        raise SettingError(f"--out {out} is not empty and holds no study. Choose another folder.")
    return True


def check_corpus_outside(out: Path, corpus: Iterable[str]) -> None:
    """Refuse a corpus folder that has the study in it: the sets of the study would be read as corpus."""
    target = out.resolve()
    for source in corpus:
        if (folder := Path(source).expanduser()).is_dir() and folder.resolve() in target.parents:
            raise SettingError(
                f"--out {out} is inside the corpus folder {source}, so the study would read its own files as corpus. "
                "Choose a folder outside the corpus."
            )


def check_replaceable(out: Path, reads: Iterable[str]) -> None:
    """Refuse to replace a study that is still used: by a job, by this study as input, or as the current folder."""
    target = out.resolve()
    if target in (Path.cwd(), *Path.cwd().parents):
        raise SettingError(f"--overwrite would remove the current folder, {Path.cwd()}. Start it from another folder.")
    for name in reads:
        for place in [name, *glob.glob(os.path.expanduser(name), recursive=True)]:
            path = Path(place).expanduser().resolve()
            if target in (path, *path.parents):
                raise SettingError(f"--overwrite would remove {place}, which this study reads. Choose another --out.")
    if held := [file for file in sorted((target / LOGS).glob("*.lock")) if is_held(file)]:
        raise SettingError(
            f"A job of the study in {out} is still running ({held[0].stem}). It stops by itself once its study has "
            "stopped: wait for it, or choose another folder."
        )
    if not os.access(target.parent, os.W_OK) or target.is_mount():
        raise SettingError(
            f"--overwrite cannot replace {out}: it must be able to rename it inside {target.parent}. "
            "Choose another folder."
        )


@contextmanager
def replaced(out: Path, lock: FolderLock) -> Iterator[Path]:
    """Yield a temporary folder to fill; it replaces the study at the end, or vanishes if the body fails."""
    with ExitStack() as stack:
        with atomic_folder(out.resolve(), LAYOUT) as folder:
            new_lock = FolderLock(folder)
            new_lock.take()  # so that no other process can take the new folder before this one does
            stack.callback(new_lock.release)
            yield folder
        lock.continue_with(new_lock)
