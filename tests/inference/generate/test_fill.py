"""Filling masks: the candidates of each mask."""

from pathlib import Path

import pytest

import headswap as hs
from cli_calls import call_json
from tiny import NOUNS, STORY_SETTINGS

pytestmark = pytest.mark.usefixtures("one_thread")


def test_fill_learns_the_grammar(stories: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = {**STORY_SETTINGS, "max_steps": 250, "learning_rate": 5e-3, "kind": "word", "objective": "masked"}
    masked = hs.pretrain(stories / "corpus.txt", out=tmp_path / "masked", **settings)
    answer = call_json(capsys, "fill", masked.path, "the <mask> was fine .", "--top-k", "8")
    assert {candidate["token"] for candidate in answer["masks"][0]} == set(NOUNS)
    assert sum(candidate["score"] for candidate in answer["masks"][0]) > 0.9
    assert answer["text"].startswith(f"the {answer['masks'][0][0]['token']} was fine")
