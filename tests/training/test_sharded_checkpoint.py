"""Runs with FSDP: killed and resumed with the same bits, resumed on other numbers of processes, one bundle."""

import json
import os
from pathlib import Path

import pytest

import headswap as hs
from headswap.core.errors import InputError
from headswap.training.checkpoint import is_sharded
from reliability.runs import differences
from training.test_sharded import run_script

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="the processes are forks")]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run_script("sharded_pretrainings.py", tmp_path_factory.mktemp("runs"))


def losses(run: Path) -> list[tuple[int, str, float]]:
    names = ("train_loss", "eval_loss", "grad_norm")
    return [(line["step"], name, line[name]) for line in hs.Run(run).metrics() for name in names if name in line]


def assert_close(one: Path, other: Path, *, atol: float) -> None:
    first, second = losses(one), losses(other)
    assert [line[:2] for line in first] == [line[:2] for line in second]
    assert [line[2] for line in second] == pytest.approx([line[2] for line in first], abs=atol)


def test_a_killed_run_is_resumed_with_the_same_bits(runs: Path) -> None:
    assert is_sharded(runs / "whole" / "checkpoints" / "last")
    assert differences(runs / "whole", runs / "killed-2") == []


@pytest.mark.parametrize(("name", "has_shards"), [("to-4", True), ("to-1", True), ("to-ddp", False)])
def test_a_run_is_resumed_on_another_number_of_processes_or_without_fsdp(
    runs: Path, name: str, has_shards: bool
) -> None:
    assert_close(runs / "whole", runs / name, atol=1e-5)
    assert is_sharded(runs / name / "checkpoints" / "last") == has_shards
    shards = list((runs / name / "checkpoints" / "last").glob("shard-*"))
    assert len(shards) == {"to-4": 4, "to-1": 1, "to-ddp": 0}[name]


def test_pretraining_by_two_processes_has_the_losses_of_one_and_one_bundle(runs: Path) -> None:
    assert_close(runs / "one", runs / "whole", atol=1e-5)
    texts = [json.loads((runs / name / "bundle" / "golden.json").read_text()) for name in ("one", "whole")]
    assert hs.load(runs / "whole").bundle.verify() == []
    assert texts[0]["lengths"] == texts[1]["lengths"]


def test_adapters_are_fine_tuned_with_fsdp(runs: Path) -> None:
    assert_close(runs / "head-one", runs / "head-two", atol=1e-5)
    assert hs.Run(runs / "head-two").result["parameters"] == hs.Run(runs / "head-one").result["parameters"]


def test_a_full_disk_of_one_process_leaves_no_checkpoint(runs: Path) -> None:
    assert not list((runs / "full" / "checkpoints").glob("step-*"))
    assert not (runs / "full" / "result.json").exists()


def test_a_sharded_checkpoint_is_not_a_bundle_and_the_error_explains_it(runs: Path) -> None:
    with pytest.raises(InputError, match="shards of a run with --parallel fsdp"):
        hs.load(runs / "whole" / "checkpoints" / "last")
