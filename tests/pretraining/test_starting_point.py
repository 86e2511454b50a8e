"""The tokenizer and the model before the first step of pre-training."""

from pathlib import Path
from typing import Any

import pytest

import headswap as hs
from headswap.core.errors import SettingError
from tiny import STORY_SETTINGS

pytestmark = pytest.mark.usefixtures("one_thread")


def test_settings_of_a_new_tokenizer_are_an_error_with_a_given_tokenizer(tiny_runs: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="vocab_size cannot be set"):
        hs.pretrain(tiny_runs / "corpus.txt", out=tmp_path / "x", tokenizer=tiny_runs / "base", vocab_size=100)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mask_unit": "word"}, "no effect with the causal objective"),
        ({"objective": "masked+nsp", "layout": "documents"}, "rows are pairs"),
        ({"objective": "masked+nsp", "type_vocab_size": 1}, "needs 2"),
    ],
)
def test_settings_that_do_not_apply_to_the_objective_are_errors(
    stories: Path, tmp_path: Path, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingError, match=message):
        hs.pretrain(stories / "corpus.txt", out=tmp_path / "run", max_steps=1, **STORY_SETTINGS, **settings)
    assert not (tmp_path / "run").exists()
