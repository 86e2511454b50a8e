"""Stopped and resumed equals uninterrupted, bit for bit: by a failure and by Ctrl-C (tests/reliability: SIGKILL)."""

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import headswap as hs
from headswap.training.drive import StoppedError
from headswap.training.observer import Observer
from tiny import sentences, write_labelled

SHAPE: dict[str, Any] = {
    "preset": "small",
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 48,
    "dropout": 0.2,
    "max_length": 24,
    "device": "cpu",
    "threads": 1,
}
TIME_FIELDS = ("seconds", "tokens_per_second", "peak_memory_bytes")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "corpus.txt").write_text("".join(f"{text}\n" for text, _ in sentences(200)), encoding="utf-8")
    write_labelled(tmp_path / "train.jsonl", 220)
    write_labelled(tmp_path / "test.jsonl", 40, seed=2)
    return tmp_path


def pretrain(files: Path, out: str, **changes: Any) -> hs.Run:
    given = SHAPE | {"max_steps": 24, "batch_size": 8, "eval_steps": 8, "logging_steps": 3, "save_steps": 5} | changes
    return hs.pretrain(files / "corpus.txt", out=files / out, held_out_fraction=0.05, **given)


def finetune(files: Path, out: str, **changes: Any) -> hs.Run:
    given = SHAPE | {"num_train_epochs": 3, "batch_size": 16, "logging_steps": 3, "save_steps": 5} | changes
    data = {"train": files / "train.jsonl", "test": files / "test.jsonl", "learning_rate": 3e-3}
    return hs.finetune("scratch", out=files / out, **data, **given)


VERBS = [pytest.param(pretrain, id="pretrain"), pytest.param(finetune, id="finetune")]
Verb = Callable[..., hs.Run]


def without_time(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_time(inner) for key, inner in value.items() if key not in TIME_FIELDS}
    return [without_time(inner) for inner in value] if isinstance(value, list) else value


def assert_equal_runs(one: hs.Run, other: hs.Run) -> None:
    """Weights, optimizer state, metrics and result, to the bit; only the clock may differ."""
    for file in ("bundle/model.safetensors", "checkpoints/last/model.safetensors",
                 "checkpoints/last/optimizer.safetensors"):  # fmt: skip
        first, second = load_file(one.path / file), load_file(other.path / file)
        assert first.keys() == second.keys()
        assert all(torch.equal(first[name], second[name]) for name in first), file
    assert without_time(one.metrics()) == without_time(other.metrics())
    assert without_time(one.result) == without_time(other.result)


class Crash(Observer):
    """Raises at the first line at or after a step, as a bug or a full disk would."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step(self, line: dict[str, Any]) -> None:
        if line["step"] >= self.step:
            raise MemoryError("by the test")


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
        assert_equal_runs(whole, verb(files, f"cut-{step}", resume=True))


@pytest.mark.parametrize("verb", VERBS)
def test_in_bf16_too_a_run_that_crashed_goes_on_bit_for_bit(files: Path, verb: Verb) -> None:
    whole = verb(files, "whole", precision="bf16")
    with pytest.raises(MemoryError):
        verb(files, "cut", precision="bf16", observer=Crash(12))
    assert_equal_runs(whole, verb(files, "cut", precision="bf16", resume=True))


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

    assert_equal_runs(whole, verb(files, "cut", save_steps=1_000, resume=True, observer=Start()))


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
    assert_equal_runs(whole, pretrain(files, "cut", resume=True))


def test_the_best_epoch_survives_a_stop(files: Path) -> None:
    """The best weights are older than the checkpoint that is resumed from."""
    settings = {"learning_rate": 0.05, "num_train_epochs": 4, "lr_scheduler_type": "constant", "save_steps": 1_000}
    data = {"train": files / "train.jsonl", "test": files / "test.jsonl", "logging_steps": 3, "batch_size": 16}
    whole = hs.finetune("scratch", out=files / "whole", **data, **settings, **SHAPE)
    with pytest.raises(StoppedError):
        hs.finetune("scratch", out=files / "cut", **data, **settings, **SHAPE, observer=CtrlC(39))
    resumed = hs.finetune("scratch", out=files / "cut", **data, **settings, **SHAPE, resume=True)
    assert_equal_runs(whole, resumed)
