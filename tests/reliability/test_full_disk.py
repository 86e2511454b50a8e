"""A full disk: a small file system that is filled while a run writes to it.

In test_survive.py the writer raises the error; here the kernel does. The test needs the permission to mount, and is
skipped without it.
"""

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headswap.core.errors import RunError
from headswap.training import checkpoint as checkpoints
from headswap.training.observer import Observer
from reliability.runs import SHAPE, as_flags, differences, finetune, pretrain, write_files

pytestmark = pytest.mark.usefixtures("one_thread")
BLOCK = 4096


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of 8 MB."""
    yield from _mounted(tmp_path / "disk", "8m")


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    """A tmpfs of 64 kB, too small for a checkpoint."""
    yield from _mounted(tmp_path / "tiny-disk", "64k")


def _mounted(folder: Path, size: str) -> Iterator[Path]:
    if sys.platform != "linux" or os.geteuid() != 0 or not shutil.which("mount"):
        pytest.skip("mounts a small tmpfs, which needs root on Linux")
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"mounting is not allowed here ({done.stderr.strip()})")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


class Filler(Observer):
    """Fills the disk to its last block at the first logged step at or after `step`."""

    def __init__(self, file: Path, step: int) -> None:
        self.file, self.step = file, step

    def on_step(self, line: dict[str, Any]) -> None:
        if line["step"] < self.step or self.file.exists():
            return
        with self.file.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * BLOCK)
            except OSError as problem:
                assert problem.errno == errno.ENOSPC


@pytest.mark.parametrize("train", [pretrain, finetune])
@pytest.mark.parametrize(("step", "kept"), [(3, []), (12, [5, 10])], ids=["no checkpoint yet", "two checkpoints"])
def test_a_disk_that_is_really_full_ends_in_a_sentence_and_loses_nothing(
    tmp_path: Path, disk: Path, train: Any, step: int, kept: list[int]
) -> None:
    files = write_files(tmp_path / "files")
    whole = train(files, "whole")
    filler = disk / "filler"
    saved = rf"The last checkpoint is .*step-{kept[-1]:08d}" if kept else "No checkpoint was written yet"
    with pytest.raises(RunError, match=rf"No space left on device.*{saved}.*--resume") as caught:
        train(files, str(disk / "run"), observer=Filler(filler, step))
    assert caught.value.exit_code == 1
    folder = disk / "run" / "checkpoints"
    found = checkpoints.find_checkpoints(folder)
    assert [checkpoints.step_of(path) for path in found] == kept
    assert [problem for path in found for problem in checkpoints.problems_of(path)] == []
    filler.unlink()
    assert differences(whole.path, train(files, str(disk / "run"), resume=True).path) == []


@pytest.mark.slow
def test_a_disk_too_small_from_the_start_is_a_sentence_of_the_command(tmp_path: Path, tiny_disk: Path) -> None:
    files = write_files(tmp_path / "files")
    line = [sys.executable, "-m", "headswap", "pretrain", str(files / "corpus.txt"), f"--out={tiny_disk / 'run'}"]
    done = subprocess.run([*line, *as_flags(SHAPE), "--max-steps=6", "--quiet"], capture_output=True, text=True)
    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "--resume" in done.stderr
    assert "Traceback" not in done.stderr


def test_vectors_for_a_full_disk_are_a_sentence(tmp_path: Path, tiny_disk: Path) -> None:
    run = pretrain(write_files(tmp_path / "files"), "run", max_steps=1)
    texts = tmp_path / "texts.txt"
    texts.write_text("the film was fine\n" * 2000)
    line = [sys.executable, "-m", "headswap", "embed", str(run.path), f"--file={texts}", f"--out={tiny_disk / 'v.npy'}"]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == f"headswap: {tiny_disk / 'v.npy'}: No space left on device.\n"
    assert list(tiny_disk.iterdir()) == []
