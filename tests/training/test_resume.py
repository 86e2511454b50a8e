"""Stopped and resumed equals uninterrupted, bit for bit: by a failure and by Ctrl-C (tests/reliability: SIGKILL)."""

import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import headswap as hs
from headswap.core.errors import SettingError
from headswap.training.observer import Observer
from headswap.training.runner import StoppedError
from reliability import runs
from reliability.runs import Crash, differences, write_files

TWO_LAYERS = {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 48}
pretrain, finetune = partial(runs.pretrain, **TWO_LAYERS), partial(runs.finetune, **TWO_LAYERS)
VERBS = [pytest.param(pretrain, id="pretrain"), pytest.param(finetune, id="finetune")]
Verb = Callable[..., hs.Run]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return write_files(tmp_path)


class CtrlC(Observer):
    """Presses Ctrl-C at a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, line: dict[str, Any]) -> None:
        if line["step"] == self.step:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("verb", VERBS)
def test_a_run_that_crashed_goes_on_bit_for_bit(files: Path, verb: Verb) -> None:
    whole = verb(files, "whole")
    for step in (3, 12, 21):  # before the first checkpoint, between two, late
        with pytest.raises(MemoryError):
            verb(files, f"cut-{step}", observer=Crash(step))
        torch.manual_seed(step)  # whatever is drawn in between must not matter
        assert differences(whole.path, verb(files, f"cut-{step}", resume=True).path) == []


@pytest.mark.parametrize("verb", VERBS)
def test_a_run_that_is_taken_elsewhere_with_its_files_goes_on_bit_for_bit(tmp_path: Path, verb: Verb) -> None:
    here, there = write_files(tmp_path / "here"), tmp_path / "there"
    verb(here, "whole")
    for name in ("cut", "other"):
        with pytest.raises(MemoryError):
            verb(here, name, observer=Crash(12))
    here.rename(there)
    assert differences(there / "whole", verb(there, "cut", resume=True).path) == ["recipe.toml"], "which has the places"
    for name in ("corpus.txt", "train.jsonl"):
        lines = (there / name).read_text(encoding="utf-8").splitlines(keepends=True)
        (there / name).write_text("".join(lines[1:]), encoding="utf-8")
    with pytest.raises(SettingError, match=r"The (corpus|training set).* changed since"):
        verb(there, "other", resume=True)


def test_a_base_is_not_taken_for_one_from_scratch(files: Path) -> None:
    base = pretrain(files, "base")
    with pytest.raises(MemoryError):
        finetune(files, "cut", observer=Crash(12))
    with pytest.raises(SettingError, match=r"model\.base was 'scratch'"):
        hs.finetune(base, train=files / "train.jsonl", out=files / "cut", resume=True)


@pytest.mark.parametrize("verb", VERBS)
def test_in_bf16_too_a_run_that_crashed_goes_on_bit_for_bit(files: Path, verb: Verb) -> None:
    whole = verb(files, "whole", precision="bf16")
    with pytest.raises(MemoryError):
        verb(files, "cut", precision="bf16", observer=Crash(12))
    assert differences(whole.path, verb(files, "cut", precision="bf16", resume=True).path) == []


@pytest.mark.parametrize("verb", VERBS)
def test_ctrl_c_saves_says_how_to_go_on_and_loses_no_step(files: Path, verb: Verb) -> None:
    whole = verb(files, "whole", save_steps=1_000)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(StoppedError, match=r"Stopped at step 12 of .*--resume") as caught:
        verb(files, "cut", save_steps=1_000, observer=CtrlC(12))
    assert caught.value.exit_code == 130
    assert signal.getsignal(signal.SIGINT) is before, "the handler was put back"
    assert (files / "cut" / "checkpoints" / "step-00000012").is_dir()

    class Start(Observer):
        def on_start(self, *, total_steps: int, first_step: int) -> None:
            assert first_step == 12

    assert differences(whole.path, verb(files, "cut", save_steps=1_000, resume=True, observer=Start()).path) == []


def test_a_second_ctrl_c_interrupts_at_once(files: Path) -> None:
    class Twice(Observer):
        def on_step(self, line: dict[str, Any]) -> None:
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        pretrain(files, "cut", observer=Twice())


def test_stopped_and_resumed_again_and_again_is_still_the_same_run(files: Path) -> None:
    whole = pretrain(files, "whole")
    for step in (6, 9, 15, 18):
        with pytest.raises(StoppedError):
            pretrain(files, "cut", resume=True, observer=CtrlC(step))
    assert differences(whole.path, pretrain(files, "cut", resume=True).path) == []


def test_the_best_epoch_survives_a_stop(files: Path) -> None:
    """The best weights are older than the checkpoint that is resumed from."""
    settings = {"learning_rate": 0.05, "num_train_epochs": 4, "lr_scheduler_type": "constant", "save_steps": 1_000}
    whole = finetune(files, "whole", **settings)
    with pytest.raises(StoppedError):
        finetune(files, "cut", **settings, observer=CtrlC(39))
    assert differences(whole.path, finetune(files, "cut", **settings, resume=True).path) == []
