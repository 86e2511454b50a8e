"""`headswap store`."""

from pathlib import Path

import pytest

from cli_calls import call_json, call_wrong
from headswap.tokens.store import TokenStore


def test_store_is_replaced_only_with_overwrite(
    capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path
) -> None:
    rest = ("--tokenizer", shared / "base", "--out", tmp_path / "store")
    before = call_json(capsys, "store", shared / "corpus.txt", *rest)["num_documents"]
    (tmp_path / "less.txt").write_text("a good film\n")
    said = call_wrong(capsys, "store", tmp_path / "less.txt", *rest)
    assert "already exists. Choose another name, or replace it with --overwrite." in said
    assert TokenStore.open(tmp_path / "store").num_documents == before
    assert call_json(capsys, "store", tmp_path / "less.txt", *rest, "--overwrite")["num_documents"] == 1
    assert TokenStore.open(tmp_path / "store").num_documents == 1
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("of my own")
    said = call_wrong(capsys, "store", tmp_path / "less.txt", *rest[:3], tmp_path / "mine", "--overwrite")
    assert "would remove 'notes.txt' from" in said
    assert (tmp_path / "mine" / "notes.txt").exists()


def test_shards_without_repeats(capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.txt").write_text(f"a good film\nthe {name} of them\n")
    rest = (tmp_path / "one.txt", tmp_path / "two.txt", "--tokenizer", shared / "base", "--drop-duplicates", "exact")
    found = call_json(capsys, "store", *rest, "--shard-mb", "0.00002", "--out", tmp_path / "shards")
    assert (found["num_documents"], found["num_shards"], found["num_dropped"]) == (3, 2, 1)
    assert call_json(capsys, "store", *rest, "--out", tmp_path / "one-shard")["num_shards"] == 1
    assert "must be above 0" in call_wrong(capsys, "store", *rest, "--shard-mb", "0", "--out", tmp_path / "none")
    said = call_wrong(capsys, "store", *rest, "--executor", "slurm", "--out", tmp_path / "none")
    assert "--executor 'slurm' is not allowed. Give one of: local, ray, ray:ADDRESS." in said
    assert not (tmp_path / "none").exists()
