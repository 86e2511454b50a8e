"""The manifest reports every file that is missing, truncated or changed."""

import json
from pathlib import Path

import pytest

from headswap.core.manifest import MANIFEST, manifest_problems, write_manifest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.bin").write_bytes(b"a" * 100)
    (tmp_path / "b.json").write_text("{}")
    write_manifest(tmp_path)
    return tmp_path


def test_a_folder_as_it_was_saved_has_no_problems(folder: Path) -> None:
    assert manifest_problems(folder) == []


def test_a_file_that_is_missing_cut_short_changed_or_a_link_is_named(folder: Path) -> None:
    (folder / "a.bin").write_bytes(b"a" * 99)
    assert "a.bin has 99 bytes, but 100 were saved" in manifest_problems(folder)[0]
    (folder / "a.bin").write_bytes(b"a" * 99 + b"b")
    assert manifest_problems(folder, contents=False) == []
    assert "a.bin is damaged: its SHA-256" in manifest_problems(folder)[0]
    (folder / "a.bin").unlink()
    assert manifest_problems(folder) == [f"{folder / 'a.bin'} is missing."]
    (folder / "a.bin").symlink_to(folder / "b.json")
    assert "a.bin is a link" in manifest_problems(folder)[0]


@pytest.mark.parametrize(
    "content",
    ["{", "[]", "{}", '{"headswap_manifest": 2, "files": {}}', '{"headswap_manifest": 1, "files": {"a.bin": 3}}',
     '{"headswap_manifest": 1, "files": {"../a.bin": {"bytes": 1, "sha256": ""}}}'],
)  # fmt: skip
def test_an_invalid_manifest_is_a_problem_and_names_no_file_outside(folder: Path, content: str) -> None:
    (folder / MANIFEST).write_text(content)
    (problem,) = manifest_problems(folder)
    assert MANIFEST in problem


def test_a_folder_without_a_manifest_is_incomplete(folder: Path) -> None:
    (folder / MANIFEST).unlink()
    assert "never written completely" in manifest_problems(folder)[0]


def test_files_added_later_are_no_problem(folder: Path) -> None:
    (folder / "notes.txt").write_text("mine")
    assert manifest_problems(folder) == []
    assert "notes.txt" not in json.loads((folder / MANIFEST).read_text())["files"]
