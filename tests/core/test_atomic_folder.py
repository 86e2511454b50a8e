"""Atomic folders: complete or absent, also where one replaces another."""

import os
from pathlib import Path

import pytest

from headswap.core import atomic_folder as folders
from headswap.core.atomic_folder import atomic_folder
from headswap.core.ownership import OwnFiles

OWN_FILES = OwnFiles(files=("a", "kept", "sub/first", "sub/second"))


def test_a_folder_replaces_the_old_one_completely(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    for name in ("first", "second"):
        with atomic_folder(target, OWN_FILES) as temporary:
            (temporary / "sub").mkdir()
            (temporary / "sub" / name).write_text(name)
    assert [path.name for path in target.rglob("*") if path.is_file()] == ["second"]
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_writer_that_fails_leaves_the_old_folder(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    target.mkdir()
    (target / "kept").write_text("old")

    def fail_half_way() -> None:
        with atomic_folder(target, OWN_FILES) as temporary:
            (temporary / "half").write_text("new")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert [path.name for path in target.iterdir()] == ["kept"]
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_folder_is_replaced_atomically_where_the_system_can(tmp_path: Path) -> None:
    """Both names refer to a folder at any moment."""
    (tmp_path / "new").mkdir()
    (tmp_path / "old").mkdir()
    (tmp_path / "new" / "a").write_text("new")
    if not folders.exchange(tmp_path / "new", tmp_path / "old"):
        pytest.skip("this file system cannot swap two names; run on ext4, xfs, btrfs, overlay or tmpfs")
    assert (tmp_path / "old" / "a").read_text() == "new"
    assert list((tmp_path / "new").iterdir()) == []


def test_without_an_atomic_exchange_a_kill_between_two_renames_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledError(BaseException):
        pass

    target = tmp_path / "bundle"
    with atomic_folder(target, OWN_FILES) as folder:
        (folder / "a").write_text("old")
    monkeypatch.setattr(folders, "exchange", lambda one, other: False)
    replace = os.replace

    def killed(source: Path, destination: Path) -> None:
        if destination == target:
            raise KilledError
        replace(source, destination)

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KilledError), atomic_folder(target, OWN_FILES) as folder:
        (folder / "a").write_text("new")
    assert not target.exists()
    monkeypatch.setattr(os, "replace", replace)
    folders.restore_folder(target, OWN_FILES)
    assert (target / "a").read_text() == "old"
    with atomic_folder(target, OWN_FILES) as folder:
        (folder / "a").write_text("newer")
    assert (target / "a").read_text() == "newer"
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


def test_a_discarded_folder_is_never_partial_under_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process killed during the removal leaves nothing under the name of the folder."""
    (tmp_path / "step-1").mkdir()
    (tmp_path / "step-1" / "a").write_text("a")
    monkeypatch.setattr(folders, "remove_folder", lambda path: None)
    folders.discard_folder(tmp_path / "step-1")
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
    folders.restore_folder(target, OWN_FILES)
    assert (target / "a").read_text() == "old"
    ours.mkdir()
    (ours / "a").write_text("older")
    folders.restore_folder(target, OWN_FILES)
    assert not ours.exists()
    assert (target / "a").read_text() == "old"
    assert all((folder / "a").exists() for folder in foreign)
    assert (tmp_path / ".old-34-0123abcd-bundle" / "notes.txt").exists()
    assert (tmp_path / ".old-56-0123abcd-bundle").is_symlink()


def test_only_leftovers_of_the_given_name_are_removed(tmp_path: Path) -> None:
    ours = ".tmp-12-0123abcd-study"
    others = [".tmp-12-0123abcd-my-study", ".tmp-x-study", ".tmp-12-study", ".tmp-12-0123abcd-study2", "study"]
    for name in (ours, *others):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text("x")
    (tmp_path / ".tmp-34-0123abcd-study").mkdir()
    (tmp_path / ".tmp-34-0123abcd-study" / "notes.txt").write_text("mine")
    folders.remove_leftovers(tmp_path / "study", OWN_FILES)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*others, ".tmp-34-0123abcd-study"])
