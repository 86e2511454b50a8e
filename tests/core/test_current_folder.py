"""The entry of the current folder is removed from sys.path, and no other."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from headswap.core import current_folder
from headswap.core.current_folder import HOME, leave_out_current_folder, new_python


@pytest.mark.parametrize(
    ("path", "is_safe", "left"),
    [
        (["HERE", "HERE", "x"], False, ["HERE", "x"]),
        (["", "x"], False, ["x"]),
        (["HERE", "x"], True, ["HERE", "x"]),
        (["x", "HERE"], False, ["x", "HERE"]),
        ([], False, []),
    ],
)
def test_only_the_first_entry_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: list[str], is_safe: bool, left: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [str(tmp_path) if part == "HERE" else part for part in path]
    python = SimpleNamespace(path=given, flags=SimpleNamespace(safe_path=is_safe))
    monkeypatch.setattr(current_folder, "sys", python)
    leave_out_current_folder()
    assert [("HERE" if part == str(tmp_path) else part) for part in python.path] == left


def test_the_folder_of_headswap_itself_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    assert new_python("-c", "pass") == [sys.executable, "-P", "-c", "pass"]
    monkeypatch.chdir(HOME)
    assert new_python("-c", "pass") == [sys.executable, "-c", "pass"]
    python = SimpleNamespace(path=[HOME, "x"], flags=SimpleNamespace(safe_path=False))
    monkeypatch.setattr(current_folder, "sys", python)
    leave_out_current_folder()
    assert python.path == [HOME, "x"]


def test_a_current_folder_that_was_removed_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert new_python("-c", "pass") == [sys.executable, "-P", "-c", "pass"]
