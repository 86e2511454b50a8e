"""Small runs for the reliability tests: their data, and a bitwise comparison of two runs."""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

import headswap as hs
from headswap.training.observer import Observer
from tiny import sentences, write_labelled

SMALLEST: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_length": 24,
    "device": "cpu",
    "threads": 1,
}
SHAPE: dict[str, Any] = {"preset": "small", "dropout": 0.2, **SMALLEST}
TIME_FIELDS = ("seconds", "tokens_per_second", "peak_memory_bytes")


def write_files(folder: Path) -> Path:
    """Write a corpus and labelled sets of the small grammar."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "corpus.txt").write_text("".join(f"{text}\n" for text, _ in sentences(120)), encoding="utf-8")
    write_labelled(folder / "train.jsonl", 220)
    write_labelled(folder / "test.jsonl", 40, seed=2)
    return folder


def pretrain(files: Path, out: str, **changes: Any) -> hs.Run:
    """Pre-train for 24 steps, with a checkpoint every 5 steps."""
    given = SHAPE | {"max_steps": 24, "batch_size": 8, "eval_steps": 8, "logging_steps": 3, "save_steps": 5} | changes
    return hs.pretrain(files / "corpus.txt", out=files / out, held_out_fraction=0.05, **given)


def finetune(files: Path, out: str, **changes: Any) -> hs.Run:
    """Fine-tune for 3 epochs of 11 steps, with a checkpoint every 5 steps."""
    given = SHAPE | {"num_train_epochs": 3, "batch_size": 16, "logging_steps": 3, "save_steps": 5} | changes
    data = {"train": files / "train.jsonl", "test": files / "test.jsonl", "learning_rate": 3e-3}
    return hs.finetune("scratch", out=files / out, **(data | given))


def as_flags(settings: dict[str, Any]) -> list[str]:
    """Settings as flags of the command line."""
    return [f"--{name.replace('_', '-')}={value}" for name, value in settings.items()]


class Crash(Observer):
    """Raises an error at the first logged step at or after `step`, like a bug."""

    def __init__(self, step: int, error: BaseException | None = None) -> None:
        self.step, self.error = step, error or MemoryError("by the test")

    def on_step(self, line: dict[str, Any]) -> None:
        if line["step"] >= self.step:
            raise self.error


def without_time(value: Any) -> Any:
    """A value without times and memory sizes."""
    if isinstance(value, dict):
        return {key: without_time(inner) for key, inner in value.items() if key not in TIME_FIELDS}
    return [without_time(inner) for inner in value] if isinstance(value, list) else value


def differences(one: Path, other: Path) -> list[str]:
    """The bitwise differences of two finished runs: weights, optimizer state, metrics, result, predictions."""
    found = []
    names = [{path.name for path in (run / "checkpoints/last").glob("*.safetensors")} for run in (one, other)]
    assert names[0], "a finished run has a checkpoint"
    if names[0] != names[1]:
        return ["checkpoints/last"]
    for file in ("bundle/model.safetensors", *(f"checkpoints/last/{name}" for name in sorted(names[0]))):
        first, second = load_file(one / file), load_file(other / file)
        if first.keys() != second.keys() or not all(torch.equal(first[name], second[name]) for name in first):
            found.append(file)
    for name in ("bundle/config.json", "bundle/tokenizer.json", "bundle/golden.json", "recipe.toml", "data.json"):
        if (one / name).read_bytes() != (other / name).read_bytes():
            found.append(name)
    runs = hs.Run(one), hs.Run(other)
    if without_time(runs[0].metrics()) != without_time(runs[1].metrics()):
        found.append("metrics.jsonl")
    if without_time(runs[0].result) != without_time(runs[1].result):
        found.append("result.json")
    if runs[0].model.bundle.labels:
        texts = [text for text, _ in sentences(12, seed=9)]
        if runs[0].model.predictions(texts) != runs[1].model.predictions(texts):
            found.append("predictions")
    return found
