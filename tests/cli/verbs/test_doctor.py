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


@pytest.mark.parametrize("flag", ["--hold-out-from=100", "--num-train=20", "--unseen-labels=wrong"])
def test_settings_of_a_training_are_refused(capsys: pytest.CaptureFixture[str], flag: str) -> None:
    said = call_wrong(capsys, "doctor", "--train", "train.csv", flag)
    assert f"{flag.partition('=')[0]}: no effect in headswap doctor." in said
