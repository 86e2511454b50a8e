"""A run logs a row of its inputs with the targets."""

from pathlib import Path

import pytest

import headswap as hs
from tiny import STORY_SETTINGS

pytestmark = pytest.mark.usefixtures("one_thread")


def test_a_run_logs_examples_of_inputs_and_targets(
    stories: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {**STORY_SETTINGS, "max_steps": 1, "vocab_size": 280}
    hs.pretrain(stories / "corpus.txt", out=tmp_path / "masked", objective="masked", **settings)
    shown = [
        record.getMessage() for record in caplog.records if "Example sequence with its targets" in record.getMessage()
    ]
    assert any("<mask>[" in line for line in shown)
    caplog.clear()
    hs.pretrain(stories / "corpus.txt", out=tmp_path / "pairs", objective="masked+nsp", **settings)
    shown = [
        record.getMessage() for record in caplog.records if "Example sequence with its targets" in record.getMessage()
    ]
    assert "<sep>" in shown[0]
    assert " pair) <sos>" in shown[0]
    caplog.clear()
    hs.pretrain(stories / "corpus.txt", out=tmp_path / "causal", **settings)
    assert any("<sos> -> the | the ->" in record.getMessage() for record in caplog.records)
