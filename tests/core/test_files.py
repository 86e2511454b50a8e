"""Atomic files and folders: complete or absent."""

import errno
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headswap.core import files
from headswap.core.errors import InputError
from headswap.core.files import atomic_file, atomic_folder, read_json, remove_folder, sha256_of_file, write_json
from headswap.core.ownership import ABANDONED_SECONDS, Layout, is_of_dead, is_unfinished, this_computer, unique

LAYOUT = Layout(files=("a", "kept", "sub/first", "sub/second"))


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


def test_a_folder_replaces_the_old_one_completely(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    for name in ("first", "second"):
        with atomic_folder(target, LAYOUT) as temporary:
            (temporary / "sub").mkdir()
            (temporary / "sub" / name).write_text(name)
    assert [path.name for path in target.rglob("*") if path.is_file()] == ["second"]
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_writer_that_fails_leaves_the_old_folder(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    target.mkdir()
    (target / "kept").write_text("old")

    def fail_half_way() -> None:
        with atomic_folder(target, LAYOUT) as temporary:
            (temporary / "half").write_text("new")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert [path.name for path in target.iterdir()] == ["kept"]
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


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


def test_a_folder_is_replaced_atomically_where_the_system_can(tmp_path: Path) -> None:
    """Both names refer to a folder at any moment."""
    (tmp_path / "new").mkdir()
    (tmp_path / "old").mkdir()
    (tmp_path / "new" / "a").write_text("new")
    if not files.exchange(tmp_path / "new", tmp_path / "old"):
        pytest.skip("this file system cannot swap two names; run on ext4, xfs, btrfs, overlay or tmpfs")
    assert (tmp_path / "old" / "a").read_text() == "new"
    assert list((tmp_path / "new").iterdir()) == []


def test_without_an_atomic_exchange_a_kill_between_two_renames_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledError(BaseException):
        pass

    target = tmp_path / "bundle"
    with atomic_folder(target, LAYOUT) as folder:
        (folder / "a").write_text("old")
    monkeypatch.setattr(files, "exchange", lambda one, other: False)
    replace = os.replace

    def killed(source: Path, destination: Path) -> None:
        if destination == target:
            raise KilledError
        replace(source, destination)

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KilledError), atomic_folder(target, LAYOUT) as folder:
        (folder / "a").write_text("new")
    assert not target.exists()
    monkeypatch.setattr(os, "replace", replace)
    files.restore_folder(target, LAYOUT)
    assert (target / "a").read_text() == "old"
    with atomic_folder(target, LAYOUT) as folder:
        (folder / "a").write_text("newer")
    assert (target / "a").read_text() == "newer"
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


def test_a_discarded_folder_is_never_partial_under_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process killed during the removal leaves nothing under the name of the folder."""
    (tmp_path / "step-1").mkdir()
    (tmp_path / "step-1" / "a").write_text("a")
    monkeypatch.setattr(files, "remove_folder", lambda path: None)
    files.discard_folder(tmp_path / "step-1")
    assert [path.name.startswith(".tmp-") for path in tmp_path.iterdir()] == [True]


def test_only_a_folder_that_headswap_set_aside_is_put_back_or_removed(tmp_path: Path) -> None:
    target = tmp_path / "bundle"
    ours = tmp_path / ".old-12-0123abcd-bundle"
    foreign = [tmp_path / name for name in (".old-bundle", ".old-12-bundle", ".old-12-0123abcd-other")]
    for folder in (ours, *foreign):
        folder.mkdir()
        (folder / "a").write_text("old")
    (tmp_path / ".old-34-0123abcd-bundle").mkdir()
    (tmp_path / ".old-34-0123abcd-bundle" / "notes.txt").write_text("mine")
    (tmp_path / ".old-56-0123abcd-bundle").symlink_to(foreign[0], target_is_directory=True)
    files.restore_folder(target, LAYOUT)
    assert (target / "a").read_text() == "old"
    ours.mkdir()
    (ours / "a").write_text("older")
    files.restore_folder(target, LAYOUT)
    assert not ours.exists()
    assert (target / "a").read_text() == "old"
    assert all((folder / "a").exists() for folder in foreign)
    assert (tmp_path / ".old-34-0123abcd-bundle" / "notes.txt").exists()
    assert (tmp_path / ".old-56-0123abcd-bundle").is_symlink()


def test_a_temporary_name_of_another_process_is_never_reused(tmp_path: Path) -> None:
    """Process numbers are reused, in containers and on shared disks: files with such a name are kept."""
    (tmp_path / "real").write_text("mine")
    (tmp_path / f".tmp-{os.getpid()}-file").symlink_to(tmp_path / "real")
    (tmp_path / f".tmp-{os.getpid()}-folder").mkdir()
    (tmp_path / f".tmp-{os.getpid()}-folder" / "notes.txt").write_text("mine")
    with atomic_file(tmp_path / "file") as temporary:
        temporary.write_text("new")
    with atomic_folder(tmp_path / "folder", LAYOUT) as temporary:
        (temporary / "a").write_text("new")
    assert (tmp_path / "real").read_text() == "mine"
    assert (tmp_path / f".tmp-{os.getpid()}-folder" / "notes.txt").read_text() == "mine"


def test_only_leftovers_of_the_given_name_are_removed(tmp_path: Path) -> None:
    ours = ".tmp-12-0123abcd-study"
    others = [".tmp-12-0123abcd-my-study", ".tmp-x-study", ".tmp-12-study", ".tmp-12-0123abcd-study2", "study"]
    for name in (ours, *others):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text("x")
    (tmp_path / ".tmp-34-0123abcd-study").mkdir()
    (tmp_path / ".tmp-34-0123abcd-study" / "notes.txt").write_text("mine")
    files.remove_leftovers(tmp_path / "study", LAYOUT)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*others, ".tmp-34-0123abcd-study"])


def test_the_next_writer_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    killed = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    dead = int(killed.stdout)
    layout = Layout(files=("inside",))
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
        with atomic_folder(tmp_path / name, layout) as temporary:
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
        with atomic_folder(tmp_path / "folder", LAYOUT) as temporary:
            (temporary / "a").write_text("new")
    assert all(place.exists() for place in (*places, folder)), "what is in the folder is new"
    for place in (*places, folder / "a", folder):
        os.utime(place, long_ago)
    write_json(tmp_path / "file", 2)
    with atomic_folder(tmp_path / "folder", LAYOUT) as temporary:
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
