"""The limits of a pre-training run: at most one may be given."""

from pathlib import Path
from typing import Any

import pytest

import headswap as hs
from headswap.core.errors import SettingError
from tiny import PRETRAIN


@pytest.mark.parametrize(
    ("limits", "named"),
    [
        ({"max_steps": 3, "num_train_epochs": 1}, "max_steps and num_train_epochs"),
        ({"max_tokens": 3, "max_minutes": 1}, "max_tokens and max_minutes"),
    ],
)
def test_two_limits_are_an_error(tiny_runs: Path, tmp_path: Path, limits: dict[str, Any], named: str) -> None:
    with pytest.raises(SettingError, match=named):
        hs.pretrain(tiny_runs / "corpus.txt", out=tmp_path / "run", **PRETRAIN, **limits)


def test_a_given_limit_replaces_another_limit_of_the_recipe(corpus_file: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "recipe.toml"
    recipe.write_text("[training]\nnum_train_epochs = 50\n")
    run = hs.pretrain(corpus_file, out=tmp_path / "x", config=recipe, max_steps=2, **PRETRAIN)
    assert run.result["steps"] == 2
