"""Runs of `pretrain` and `finetune` with FSDP, some killed and resumed on another number of processes.

A script: `python sharded_pretrainings.py FOLDER`. The folder gets one run folder per case.
"""

import errno
import os
import shutil
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed.fsdp  # imported once, before the processes are forked
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter

import headswap as hs
from forked import KILLED, run_forks
from headswap.core.errors import RunError
from headswap.pretraining.corpus import RowBatches
from reliability.runs import SHAPE, write_files

STEPS, KILLED_AT = 12, 7
SETTINGS: dict[str, Any] = SHAPE | {
    "max_steps": STEPS, "batch_size": 8, "eval_steps": 4, "logging_steps": 1, "save_steps": 5, "dropout": 0.0,
    "held_out_fraction": 0.1,
}  # fmt: skip
LABELLED: dict[str, Any] = {
    "num_train_epochs": 2, "batch_size": 32, "max_length": 24, "device": "cpu", "threads": 1, "logging_steps": 1,
    "trainable": "lora", "lora_rank": 2, "dropout": 0.0, "head_dropout": 0.0, "learning_rate": 3e-3,
}  # fmt: skip


def pretrain(files: Path, out: str, *, killed_at: int | None = None, **changes: Any) -> None:
    """Pre-train in this process; the second process ends itself before a step."""
    if killed_at is not None and os.environ["RANK"] == "1":
        micro_batches = RowBatches.micro_batches

        def dying(self: RowBatches, at: int, *, count: int) -> Any:
            if at >= killed_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return micro_batches(self, at, count=count)

        RowBatches.micro_batches = dying  # type: ignore[method-assign]
    hs.pretrain(files / "corpus.txt", out=files / out, **(SETTINGS | changes))


def finetune(files: Path, out: str, **changes: Any) -> None:
    """Fine-tune the base of the first run with LoRA."""
    data = {"train": files / "train.jsonl", "test": files / "test.jsonl"}
    hs.finetune(files / "one", out=files / out, **(data | LABELLED | changes))


def fill_disk(files: Path, out: str) -> None:
    """The disk of the second process is full; the error of both is a sentence that names the last checkpoint."""

    def write_data(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    if os.environ["RANK"] == "1":
        HuggingFaceStorageWriter.write_data = write_data  # type: ignore[method-assign]
    with pytest.raises(RunError, match=r"No space left on device.*No checkpoint was written yet"):
        pretrain(files, out, parallel="fsdp")


def main(files: Path) -> None:
    write_files(files)
    sharded = {"parallel": "fsdp"}
    assert run_forks(1, partial(pretrain, files, "one")) == [0]
    assert run_forks(2, partial(pretrain, files, "whole", **sharded)) == [0, 0]
    codes = run_forks(2, partial(pretrain, files, "killed-2", killed_at=KILLED_AT, **sharded))
    assert KILLED in codes, "it ended before it was killed"
    assert 0 not in codes
    others = {"to-4": (4, sharded), "to-1": (1, sharded), "to-ddp": (2, {"parallel": "ddp"})}
    for name in others:
        shutil.copytree(files / "killed-2", files / name, symlinks=True)
    assert run_forks(2, partial(pretrain, files, "killed-2", resume=True, **sharded)) == [0, 0]
    for name, (world, how) in others.items():
        assert run_forks(world, partial(pretrain, files, name, resume=True, **how)) == [0] * world, name
    assert run_forks(2, partial(fill_disk, files, "full")) == [0, 0]
    assert run_forks(1, partial(finetune, files, "head-one")) == [0]
    assert run_forks(2, partial(finetune, files, "head-two", **sharded)) == [0, 0]


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))
