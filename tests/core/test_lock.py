"""The lock of a folder: one process at a time, released when the process ends."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headswap.core.errors import SettingError
from headswap.core.lock import LOCK_FILE, FolderLock, is_held

HOLDER = """
import sys, pathlib
from headswap.core.lock import FolderLock
lock = FolderLock(pathlib.Path(sys.argv[1]))
lock.take()
print("taken", flush=True)
sys.stdin.read()
"""


def test_a_second_lock_is_refused_with_the_holder(tmp_path: Path) -> None:
    first, second = FolderLock(tmp_path), FolderLock(tmp_path)
    first.take()
    for attempt in (second.take, second.check):
        with pytest.raises(SettingError, match=rf"in use \(process {os.getpid()} on .*choose another"):
            attempt()
    first.release()
    assert list(tmp_path.iterdir()) == [], "the lock file is removed"
    second.take()
    second.release()


def test_checking_writes_nothing(tmp_path: Path) -> None:
    FolderLock(tmp_path).check()
    assert list(tmp_path.iterdir()) == []
    (tmp_path / LOCK_FILE).write_text("left by a killed process")
    FolderLock(tmp_path).check()
    assert (tmp_path / LOCK_FILE).read_text() == "left by a killed process"


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)  # fmt: skip
    assert holder.stdout is not None
    assert holder.stdout.readline() == "taken\n"
    with pytest.raises(SettingError, match=f"process {holder.pid} on"):
        FolderLock(tmp_path).take()
    holder.kill()
    assert holder.wait() == -signal.SIGKILL
    lock = FolderLock(tmp_path)
    lock.take()
    lock.release()
    holder.stdout.close()
    assert holder.stdin is not None
    holder.stdin.close()


@pytest.mark.parametrize("is_dangling", [True, False])
def test_a_lock_file_that_is_a_link_is_refused_and_not_followed(tmp_path: Path, is_dangling: bool) -> None:
    target, folder = tmp_path / "precious.txt", tmp_path / "run"
    folder.mkdir()
    (folder / LOCK_FILE).symlink_to(target)
    if not is_dangling:
        target.write_text("mine")
    for attempt in (FolderLock(folder).take, FolderLock(folder).check):
        with pytest.raises(SettingError, match=r"\.lock is a symbolic link"):
            attempt()
    assert target.exists() is not is_dangling
    assert is_dangling or target.read_text() == "mine"
    assert (folder / LOCK_FILE).is_symlink()


def test_a_lock_file_that_headswap_did_not_write_is_refused(tmp_path: Path) -> None:
    """A hard link, a text file, a folder, a pipe."""
    precious = tmp_path / "precious.txt"
    precious.write_text("mine")
    file = tmp_path / "run" / LOCK_FILE
    file.parent.mkdir()
    makers = {
        "has hard links": lambda: os.link(precious, file),
        "other content than a lock file": lambda: file.write_text("mine"),
        "is not a regular file": file.mkdir,
    }
    for words, make in makers.items():
        make()
        with pytest.raises(SettingError, match=words):
            FolderLock(file.parent).take()
        file.rmdir() if file.is_dir() else file.unlink()
    os.mkfifo(file)
    with pytest.raises(SettingError, match="is not a regular file"):
        FolderLock(file.parent).take()
    assert precious.read_text() == "mine"


def test_a_lock_file_left_by_a_killed_process_is_reused(tmp_path: Path) -> None:
    for content in ("", '{"process": 1, "host": "pluto"}'):
        (tmp_path / LOCK_FILE).write_text(content)
        lock = FolderLock(tmp_path)
        lock.take()
        lock.release()
        assert list(tmp_path.iterdir()) == []


def test_a_lock_continues_in_the_folder_that_replaces_its_own(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    lock, new = FolderLock(tmp_path / "old"), FolderLock(tmp_path / "new")
    lock.take()
    new.take()
    (tmp_path / "old").rename(tmp_path / "gone")
    (tmp_path / "new").rename(tmp_path / "old")
    lock.continue_with(new)
    assert is_held(tmp_path / "old" / LOCK_FILE)
    assert not is_held(tmp_path / "gone" / LOCK_FILE)
    assert not is_held(tmp_path / "nowhere")
    lock.release()
    assert list((tmp_path / "old").iterdir()) == []
