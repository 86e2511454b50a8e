"""One process at a time; a dead one holds nothing."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headswap.core.errors import SettingError
from headswap.core.lock import LOCK_FILE, FolderLock

HOLDER = """
import sys, pathlib
from headswap.core.lock import FolderLock
lock = FolderLock(pathlib.Path(sys.argv[1]))
lock.take()
print("taken", flush=True)
sys.stdin.read()
"""


def test_a_second_one_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    first, second = FolderLock(tmp_path), FolderLock(tmp_path)
    first.take()
    for attempt in (second.take, second.check):
        with pytest.raises(SettingError, match=rf"in use \(process {os.getpid()} on .*choose another"):
            attempt()
    first.release()
    assert list(tmp_path.iterdir()) == [], "no file is left behind"
    second.take()
    second.release()


def test_looking_writes_nothing(tmp_path: Path) -> None:
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
