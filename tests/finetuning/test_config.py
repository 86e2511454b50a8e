"""Settings of fine-tuning that have no effect are errors."""

from pathlib import Path
from typing import Any

import pytest

import headswap as hs
from headswap.core.errors import SettingError
from tiny import ONE_THREAD

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"lora_rank": 4}, "only used with --trainable lora"),
        ({"trainable": "head", "unfreeze": "gradual"}, "no effect with --trainable head"),
        ({"trainable": "top-9"}, "has 2 layers"),
        ({"trainable": "lorra"}, "all, head, biases, lora, or top-N.* Did you mean 'lora'"),
        ({"trainable": "top-0"}, "such as top-2"),
        ({"base": "scratch", "trainable": "lora"}, "no base to adapt"),
    ],
)
def test_settings_without_effect_are_an_error(
    tiny_runs: Path, tmp_path: Path, settings: dict[str, Any], said: str
) -> None:
    given = {"base": tiny_runs / "base", "train": tiny_runs / "train.jsonl", **ONE_THREAD} | settings
    with pytest.raises(SettingError, match=said):
        hs.finetune(out=tmp_path / "run", **given)
    assert not (tmp_path / "run").exists()
