"""Limits in minutes and tokens become a number of steps, once."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import headswap as hs
from headswap.core.settings import load_recipe
from headswap.pretraining import time_budget
from headswap.pretraining.config import PretrainRecipe
from reliability.runs import Crash
from tiny import PRETRAIN


def test_minutes_are_converted_to_steps_once_and_not_again_on_resume(
    tiny_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    probes = []

    def probe(minutes: float, *_: Any, **__: Any) -> int:
        probes.append(minutes)
        return 6

    monkeypatch.setattr(time_budget, "probed_steps", probe)
    assert int(6 * 0.35 / 0.35) == 5, "rounding to binary numbers must not lose a step"
    given = {"out": tmp_path / "run", "max_minutes": 0.35, "save_steps": 1, "logging_steps": 2, **PRETRAIN}
    with pytest.raises(MemoryError, match="by the test"):
        hs.pretrain(tiny_runs / "corpus.txt", observer=Crash(4), **given)
    assert load_recipe(PretrainRecipe, tmp_path / "run" / "recipe.toml").training.max_steps == 6
    run = hs.pretrain(tiny_runs / "corpus.txt", resume=True, **given)
    assert run.result["steps"] == 6
    assert probes == [0.35]
    again = hs.pretrain(config=run.path / "recipe.toml", out=tmp_path / "again")
    assert again.result["steps"] == 6
    assert probes == [0.35], "a saved recipe has its number of steps"


def test_the_speed_test_changes_no_weight(tiny_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_budget, "PROBE_SECONDS", 0.05)
    run = hs.pretrain(tiny_runs / "corpus.txt", out=tmp_path / "run", max_minutes=0.003, **PRETRAIN)
    steps = load_recipe(PretrainRecipe, run.path / "recipe.toml").training.max_steps
    assert steps is not None
    assert run.result["steps"] == steps >= 1
    same = hs.pretrain(tiny_runs / "corpus.txt", out=tmp_path / "same", max_steps=steps, **PRETRAIN)
    weights = [load_file(path / "bundle" / "model.safetensors") for path in (run.path, same.path)]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_limit_in_tokens_is_met_within_two_batches(tiny_runs: Path, tmp_path: Path) -> None:
    run = hs.pretrain(tiny_runs / "corpus.txt", out=tmp_path / "run", max_tokens=1_000, **PRETRAIN)
    assert abs(run.result["tokens"] - 1_000) <= 2 * 8 * 24
