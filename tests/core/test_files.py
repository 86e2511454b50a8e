"""Files that are whole or not there."""

import json
import os
from pathlib import Path

import pytest

from headswap.core import files
from headswap.core.errors import InputError
from headswap.core.files import atomic_file, atomic_folder, read_json, remove_folder, sha256_of_file, write_json


def test_a_file_appears_whole_at_the_end(tmp_path: Path) -> None:
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


def test_a_folder_replaces_the_old_one_whole(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    for name in ("first", "second"):
        with atomic_folder(target) as temporary:
            (temporary / "sub").mkdir()
            (temporary / "sub" / name).write_text(name)
    assert [path.name for path in target.rglob("*") if path.is_file()] == ["second"]
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_a_writer_that_fails_leaves_the_old_folder(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    target.mkdir()
    (target / "kept").write_text("old")

    def fail_half_way() -> None:
        with atomic_folder(target) as temporary:
            (temporary / "half").write_text("new")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert [path.name for path in target.iterdir()] == ["kept"]
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_removing_a_link_leaves_what_it_names(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").touch()
    (tmp_path / "link").symlink_to("real", target_is_directory=True)
    remove_folder(tmp_path / "link")
    remove_folder(tmp_path / "not there")
    assert [path.name for path in tmp_path.iterdir()] == ["real"]
    assert (tmp_path / "real" / "file").exists()


def test_json_comes_back_and_stays_readable(tmp_path: Path) -> None:
    value = {"label": "très bien", "numbers": [1, 2.5, None]}
    write_json(tmp_path / "file.json", value)
    assert read_json(tmp_path / "file.json") == value
    assert "très bien" in (tmp_path / "file.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe{}"])
def test_broken_json_is_an_error_that_names_the_file(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "broken.json").write_bytes(content)
    with pytest.raises(InputError, match=r"broken\.json is not valid JSON"):
        read_json(tmp_path / "broken.json")
    with pytest.raises(InputError, match="does not exist"):
        read_json(tmp_path / "missing.json")


def test_a_value_that_json_cannot_hold_leaves_the_old_file(tmp_path: Path) -> None:
    write_json(tmp_path / "file.json", {"a": 1})
    with pytest.raises(TypeError):
        write_json(tmp_path / "file.json", {"a": object()})
    assert json.loads((tmp_path / "file.json").read_text()) == {"a": 1}


def test_a_hash_has_its_known_answer(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"abc")
    assert sha256_of_file(tmp_path / "file").startswith("ba7816bf8f01cfea414140de5dae2223b00361a396177a9c")


def test_a_folder_is_replaced_in_one_stroke_where_the_system_can(tmp_path: Path) -> None:
    """Between the two names there is no moment at which neither holds a folder."""
    (tmp_path / "new").mkdir()
    (tmp_path / "old").mkdir()
    (tmp_path / "new" / "a").write_text("new")
    if not files.exchange(tmp_path / "new", tmp_path / "old"):
        pytest.skip("this file system cannot swap two names; run on ext4, xfs, btrfs, overlay or tmpfs")
    assert (tmp_path / "old" / "a").read_text() == "new"
    assert list((tmp_path / "new").iterdir()) == []


def test_without_that_stroke_a_kill_between_two_renames_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledError(BaseException):
        pass

    target = tmp_path / "bundle"
    with atomic_folder(target) as folder:
        (folder / "a").write_text("old")
    monkeypatch.setattr(files, "exchange", lambda one, other: False)
    replace = os.replace

    def killed(source: Path, destination: Path) -> None:
        if destination == target:
            raise KilledError
        replace(source, destination)

    monkeypatch.setattr(os, "replace", killed)
    with pytest.raises(KilledError), atomic_folder(target) as folder:
        (folder / "a").write_text("new")
    assert not target.exists()
    monkeypatch.setattr(os, "replace", replace)
    files.restore_folder(target)
    assert (target / "a").read_text() == "old"
    with atomic_folder(target) as folder:
        (folder / "a").write_text("newer")
    assert (target / "a").read_text() == "newer"
    assert [path.name for path in tmp_path.iterdir()] == ["bundle"]


def test_a_folder_is_discarded_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill while it is removed leaves nothing under its name."""
    (tmp_path / "step-1").mkdir()
    (tmp_path / "step-1" / "a").write_text("a")
    monkeypatch.setattr(files, "remove_folder", lambda path: None)
    files.discard_folder(tmp_path / "step-1")
    assert [path.name.startswith(".tmp-") for path in tmp_path.iterdir()] == [True]
