"""A run that crashed or was stopped with Ctrl-C resumes bit for bit (SIGKILL: tests/reliability)."""

import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import headswap as hs
from headswap.core.errors import SettingError
from headswap.pretraining import pretrain as pretrain_module
from headswap.training.observer import Observer
from headswap.training.runner import StoppedError
from reliability import runs
from reliability.runs import Crash, differences, write_files
from tiny import PRETRAIN

TWO_LAYERS = {"hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 48}
pretrain, finetune = partial(runs.pretrain, **TWO_LAYERS), partial(runs.finetune, **TWO_LAYERS)
VERBS = [pytest.param(pretrain, id="pretrain"), pytest.param(finetune, id="finetune")]
Verb = Callable[..., hs.Run]


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return write_files(tmp_path)


class CtrlC(Observer):
    """Sends SIGINT at a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, line: dict[str, Any]) -> None:
        if line["step"] == self.step:
            signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("verb", VERBS)
def test_a_run_that_crashed_is_resumed_bit_for_bit(files: Path, verb: Verb) -> None:
    whole = verb(files, "whole")
    for step in (3, 12, 21):  # before the first checkpoint, between two, late
        with pytest.raises(MemoryError):
            verb(files, f"cut-{step}", observer=Crash(step))
        torch.manual_seed(step)  # random numbers drawn in between must not matter
        assert differences(whole.path, verb(files, f"cut-{step}", resume=True).path) == []


@pytest.mark.parametrize("verb", VERBS)
def test_a_run_that_is_moved_with_its_files_is_resumed_bit_for_bit(tmp_path: Path, verb: Verb) -> None:
    here, there = write_files(tmp_path / "here"), tmp_path / "there"
    verb(here, "whole")
    for name in ("cut", "other"):
        with pytest.raises(MemoryError):
            verb(here, name, observer=Crash(12))
    here.rename(there)
    assert differences(there / "whole", verb(there, "cut", resume=True).path) == ["recipe.toml"], (
        "only the paths differ"
    )
    for name in ("corpus.txt", "train.jsonl"):
        lines = (there / name).read_text(encoding="utf-8").splitlines(keepends=True)
        (there / name).write_text("".join(lines[1:]), encoding="utf-8")
    with pytest.raises(SettingError, match=r"The (corpus|training set).* changed since"):
        verb(there, "other", resume=True)


@pytest.mark.parametrize("verb", VERBS)
def test_a_run_in_bf16_that_crashed_is_resumed_bit_for_bit(files: Path, verb: Verb) -> None:
    whole = verb(files, "whole", precision="bf16")
    with pytest.raises(MemoryError):
        verb(files, "cut", precision="bf16", observer=Crash(12))
    assert differences(whole.path, verb(files, "cut", precision="bf16", resume=True).path) == []


@pytest.mark.parametrize("verb", VERBS)
def test_ctrl_c_saves_prints_how_to_resume_and_loses_no_step(files: Path, verb: Verb) -> None:
    whole = verb(files, "whole", save_steps=1_000)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(StoppedError, match=r"Stopped at step 12 of .*--resume") as caught:
        verb(files, "cut", save_steps=1_000, observer=CtrlC(12))
    assert caught.value.exit_code == 130
    assert signal.getsignal(signal.SIGINT) is before, "the signal handler is restored"
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


def test_a_run_that_is_stopped_several_times_is_still_the_same_run(files: Path) -> None:
    whole = pretrain(files, "whole")
    for step in (6, 9, 15, 18):
        with pytest.raises(StoppedError):
            pretrain(files, "cut", resume=True, observer=CtrlC(step))
    assert differences(whole.path, pretrain(files, "cut", resume=True).path) == []


def test_the_best_epoch_is_kept_when_a_run_is_stopped(files: Path) -> None:
    """The best weights are older than the checkpoint that is resumed from."""
    settings = {"learning_rate": 0.05, "num_train_epochs": 4, "lr_scheduler_type": "constant", "save_steps": 1_000}
    whole = finetune(files, "whole", **settings)
    with pytest.raises(StoppedError):
        finetune(files, "cut", **settings, observer=CtrlC(39))
    assert differences(whole.path, finetune(files, "cut", **settings, resume=True).path) == []


def test_resuming_a_finished_run_changes_nothing(
    tiny_base: hs.Run, tiny_runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pretrain_module, "run_steps", lambda *_: pytest.fail("trained again"))
    before = (tiny_base.path / "result.json").read_bytes()
    again = hs.pretrain(tiny_runs / "corpus.txt", out=tiny_base.path, max_steps=30, resume=True, **PRETRAIN)
    assert again.path == tiny_base.path
    assert again.result == tiny_base.result
    assert (tiny_base.path / "result.json").read_bytes() == before


def test_resume_in_an_empty_folder_starts_a_new_run(tiny_runs: Path, tmp_path: Path) -> None:
    run = hs.pretrain(tiny_runs / "corpus.txt", out=tmp_path / "run", max_steps=2, resume=True, **PRETRAIN)
    assert run.result["steps"] == 2
