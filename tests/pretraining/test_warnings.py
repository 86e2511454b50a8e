"""Warnings about the corpus before the first step."""

from pathlib import Path

import pytest

import headswap as hs
from tiny import PRETRAIN


def test_pretraining_says_in_one_line_each_what_is_wrong_with_the_corpus(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "corpus.txt").write_text("a text of its own\nanother text\n" * 2 + "and a third\n")
    hs.pretrain(tmp_path / "corpus.txt", out=tmp_path / "run", max_steps=1, **PRETRAIN)
    lines = [record.getMessage() for record in caplog.records]
    assert any(line.startswith("Corpus: 2 of 5 documents repeat an earlier one, token for token") for line in lines)
    assert any("tokens for" in line and "parameters" in line for line in lines)
