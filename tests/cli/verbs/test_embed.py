"""`headswap embed`."""

from pathlib import Path

import pytest

from cli_calls import call_json, call_wrong


def test_vectors_are_replaced_only_with_overwrite(
    capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path
) -> None:
    given = ("embed", shared / "base", "--out", tmp_path / "vectors.npy")
    assert call_json(capsys, *given, "a good film")["num_texts"] == 1
    assert "or replace it with --overwrite." in call_wrong(capsys, *given, "a film", "two films")
    assert call_json(capsys, *given, "a film", "two films", "--overwrite")["num_texts"] == 2
    assert "--overwrite has no effect without --out" in call_wrong(capsys, *given[:2], "a film", "--overwrite")
    (tmp_path / "folder.npy").mkdir()
    said = call_wrong(capsys, *given[:3], tmp_path / "folder.npy", "a film", "--overwrite")
    assert "folder.npy is a folder" in said
