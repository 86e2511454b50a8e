"""The tokenizer and the model before the first step of pre-training."""

from pathlib import Path

import pytest

import headswap as hs
from headswap.core.errors import SettingError


def test_settings_of_a_new_tokenizer_are_an_error_with_a_given_tokenizer(tiny_runs: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="vocab_size cannot be set"):
        hs.pretrain(tiny_runs / "corpus.txt", out=tmp_path / "x", tokenizer=tiny_runs / "base", vocab_size=100)
