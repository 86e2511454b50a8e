"""Warnings about the corpus before the first step."""

import logging
from pathlib import Path

import pytest

import headswap as hs
from headswap.pretraining.warnings import PlateauWarning
from tiny import PRETRAIN, STORY_SETTINGS

pytestmark = pytest.mark.usefixtures("one_thread")


def test_pretraining_says_in_one_line_each_what_is_wrong_with_the_corpus(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "corpus.txt").write_text("a text of its own\nanother text\n" * 2 + "and a third\n")
    hs.pretrain(tmp_path / "corpus.txt", out=tmp_path / "run", max_steps=1, **PRETRAIN)
    lines = [record.getMessage() for record in caplog.records]
    assert any(line.startswith("Corpus: 2 of 5 documents repeat an earlier one, token for token") for line in lines)
    assert any("tokens for" in line and "parameters" in line for line in lines)


def test_a_plateau_at_the_unigram_entropy_is_one_warning(
    stories: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {**STORY_SETTINGS, "max_steps": 40, "eval_steps": 5, "learning_rate": 1e-7, "objective": "masked"}
    hs.pretrain(stories / "corpus.txt", out=tmp_path / "flat", **settings)
    warnings = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert sum("the unigram entropy" in record.getMessage() for record in warnings) == 1


@pytest.mark.parametrize(("loss", "place"), [(5.0, "at"), (4.9, "at"), (6.0, "above")])
def test_the_warning_states_whether_the_loss_is_at_or_above_the_entropy(
    caplog: pytest.LogCaptureFixture, loss: float, place: str
) -> None:
    PlateauWarning(5.0, is_masked=False).check(loss, 50, 100, 1e-3)
    assert f"is still {place} the unigram entropy 5.000" in caplog.text
