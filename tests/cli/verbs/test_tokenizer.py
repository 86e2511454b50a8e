"""`headswap tokenizer`."""

from pathlib import Path

import pytest

from cli_calls import call, call_wrong


def test_tokenizer_is_replaced_only_with_overwrite(
    capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path
) -> None:
    given = ("tokenizer", shared / "corpus.txt", "--out", tmp_path / "tokenizer.json")
    call(capsys, *given, "--vocab-size=270")
    before = (tmp_path / "tokenizer.json").read_bytes()
    assert "already exists" in call_wrong(capsys, *given, "--vocab-size=280")
    assert (tmp_path / "tokenizer.json").read_bytes() == before
    call(capsys, *given, "--vocab-size=280", "--overwrite")
    assert (tmp_path / "tokenizer.json").read_bytes() != before


def test_tokenizer_never_replaces_its_corpus(capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_bytes((shared / "corpus.txt").read_bytes())
    said = call_wrong(capsys, "tokenizer", corpus, "--out", corpus, "--vocab-size=270", "--overwrite")
    assert "is the input" in said
    assert corpus.read_bytes() == (shared / "corpus.txt").read_bytes()


def test_another_executor_is_refused_before_the_corpus_is_read(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "empty.txt").touch()
    given = ("tokenizer", tmp_path / "empty.txt", "--documents", "line", "--out", tmp_path / "tokenizer.json")
    said = call_wrong(capsys, *given, "--executor", "slurm")
    assert "--executor 'slurm' is not allowed. Give one of: local, ray, ray:ADDRESS." in said
    assert "is empty: it contains no document." in call_wrong(capsys, *given)
