"""`headswap doctor`."""

from pathlib import Path

import pytest

from cli_calls import call, call_wrong
from tiny import sentences


def test_text_column_of_labelled_sets_is_not_applied_to_a_plain_corpus(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    rows = "\n".join(f"{text.replace(',', ' ')},{label}" for text, label in sentences(60))
    (tmp_path / "train.csv").write_text(f"sentence,topic\n{rows}\n", encoding="utf-8")
    (tmp_path / "corpus.txt").write_text("\n".join(text for text, _ in sentences(80, seed=1)), encoding="utf-8")
    named = ("--train", tmp_path / "train.csv", "--text-column", "sentence", "--label-column", "topic")
    answer = call(capsys, "doctor", *named, "--corpus", tmp_path / "corpus.txt")
    assert "corpus" in answer
    assert "Leave it out" in call_wrong(
        capsys, "doctor", "--corpus", tmp_path / "corpus.txt", "--text-column", "sentence"
    )
