"""Atomic files: complete or absent."""

import errno
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headswap.core.atomic_folder import atomic_folder
from headswap.core.errors import InputError
from headswap.core.files import atomic_file, read_json, remove_folder, sha256_of_file, write_json
from headswap.core.ownership import ABANDONED_SECONDS, OwnFiles, is_of_dead, is_unfinished, this_computer, unique

OWN_FILES = OwnFiles(files=("a", "kept", "sub/first", "sub/second"))


def test_a_file_is_complete_or_absent(tmp_path: Path) -> None:
    target = tmp_path / "deep" / "file.txt"
    with atomic_file(target) as temporary:
        temporary.write_text("new")
        assert not target.exists()
    assert target.read_text() == "new"
    assert [path.name for path in target.parent.iterdir()] == ["file.txt"]


def test_a_writer_that_fails_leaves_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "file.txt"
    target.write_text("old")

    def fail_half_way() -> None:
        with atomic_file(target) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["file.txt"]


def test_removing_a_link_keeps_its_target(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").touch()
    (tmp_path / "link").symlink_to("real", target_is_directory=True)
    remove_folder(tmp_path / "link")
    remove_folder(tmp_path / "not there")
    assert [path.name for path in tmp_path.iterdir()] == ["real"]
    assert (tmp_path / "real" / "file").exists()


def test_json_is_read_back_equal_and_is_readable(tmp_path: Path) -> None:
    value = {"label": "très bien", "numbers": [1, 2.5, None]}
    write_json(tmp_path / "file.json", value)
    assert read_json(tmp_path / "file.json") == value
    assert "très bien" in (tmp_path / "file.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe{}"])
def test_invalid_json_is_an_error_with_the_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "broken.json").write_bytes(content)
    with pytest.raises(InputError, match=r"broken\.json is not valid JSON"):
        read_json(tmp_path / "broken.json")
    with pytest.raises(InputError, match="does not exist"):
        read_json(tmp_path / "missing.json")


def test_a_value_that_is_not_json_leaves_the_old_file(tmp_path: Path) -> None:
    write_json(tmp_path / "file.json", {"a": 1})
    with pytest.raises(TypeError):
        write_json(tmp_path / "file.json", {"a": object()})
    assert json.loads((tmp_path / "file.json").read_text()) == {"a": 1}


def test_the_hash_of_a_file_is_sha256(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    assert sha256_of_file(tmp_path / "file").startswith("ba7816bf8f01cfea414140de5dae2223b00361a396177a9c")


def test_a_temporary_name_of_another_process_is_never_reused(tmp_path: Path) -> None:
    """Process numbers are reused, in containers and on shared disks: files with such a name are kept."""
    (tmp_path / "real").write_text("mine")
    (tmp_path / f".tmp-{os.getpid()}-file").symlink_to(tmp_path / "real")
    (tmp_path / f".tmp-{os.getpid()}-folder").mkdir()
    (tmp_path / f".tmp-{os.getpid()}-folder" / "notes.txt").write_text("mine")
    with atomic_file(tmp_path / "file") as temporary:
        temporary.write_text("new")
    with atomic_folder(tmp_path / "folder", OWN_FILES) as temporary:
        (temporary / "a").write_text("new")
    assert (tmp_path / "real").read_text() == "mine"
    assert (tmp_path / f".tmp-{os.getpid()}-folder" / "notes.txt").read_text() == "mine"


def test_the_next_writer_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    dead = int(killed.stdout)
    own_files = OwnFiles(files=("inside",))
    names = {name: f".tmp-{number}.{this_computer()}-01234567-{target}" for name, number, target in (
        ("dead file", dead, "file"), ("living file", os.getpid(), "file"), ("other file", dead, "another"),
        ("dead folder", dead, "folder"), ("foreign folder", dead, "foreign"))}  # fmt: skip
    for name, place in names.items():
        if name.endswith("folder"):
            (tmp_path / place).mkdir()
            (tmp_path / place / ("notes.txt" if name == "foreign folder" else "inside")).write_text("x")
        else:
            (tmp_path / place).write_text("half")
    with atomic_file(tmp_path / "file") as temporary:
        temporary.write_text("new")
    for name in ("folder", "foreign"):
        with atomic_folder(tmp_path / name, own_files) as temporary:
            (temporary / "inside").write_text("new")
    left = {name for name, place in names.items() if (tmp_path / place).exists()}
    assert left == {"living file", "other file", "foreign folder"}
    assert (tmp_path / "file").read_text() == "new"


def test_a_writer_on_another_computer_with_a_dead_number_here_keeps_its_file(tmp_path: Path) -> None:
    """Two computers share the folder: a process number that is free here may belong to a writer there."""
    killed = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    dead, there = int(killed.stdout), f"{int(this_computer(), 16) ^ 1:08x}"
    places = [tmp_path / name for name in (f".tmp-{dead}.{there}-01234567-file", f".tmp-{dead}-01234567-file")]
    folder = tmp_path / f".tmp-{dead}.{there}-01234567-folder"
    folder.mkdir()
    for place in (*places, folder / "a"):
        place.write_text("half")
    long_ago = (time.time() - ABANDONED_SECONDS - 60,) * 2
    os.utime(folder, long_ago)
    for _ in range(2):
        write_json(tmp_path / "file", 1)
        with atomic_folder(tmp_path / "folder", OWN_FILES) as temporary:
            (temporary / "a").write_text("new")
    assert all(place.exists() for place in (*places, folder)), "what is in the folder is new"
    for place in (*places, folder / "a", folder):
        os.utime(place, long_ago)
    write_json(tmp_path / "file", 2)
    with atomic_folder(tmp_path / "folder", OWN_FILES) as temporary:
        (temporary / "a").write_text("new")
    assert not any(place.exists() for place in (*places, folder)), "nobody wrote to them for a week"


def test_a_temporary_name_has_the_process_and_the_computer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = unique(tmp_path / "file")
    assert made.name.startswith(f".tmp-{os.getpid()}.{this_computer()}-")
    assert is_unfinished(made.name)
    assert not is_of_dead(made)
    here = this_computer()
    this_computer.cache_clear()
    monkeypatch.setattr("socket.gethostname", lambda: "another")
    assert this_computer() != here
    this_computer.cache_clear()


def test_an_error_of_a_write_has_the_name_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"No space left on device.*file"), atomic_file(tmp_path / "file"):
        raise OSError(errno.ENOSPC, "No space left on device")
