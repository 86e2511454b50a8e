"""Bundles that are read back in this process: a new Python for every tiny fine-tuning would take minutes."""

from pathlib import Path

import numpy as np
import pytest

from headswap.batches.labelled_rows import Row
from headswap.bundle.bundle import Bundle
from headswap.finetuning.reload_check import FreshProcess
from headswap.inference.outputs import outputs_of


def reload_here(patch: pytest.MonkeyPatch) -> None:
    """Let this process play the fresh one."""

    def scores(_: FreshProcess, folder: Path, rows: list[Row]) -> list[np.ndarray]:
        return outputs_of(Bundle.load(folder).model, rows)

    patch.setattr(FreshProcess, "__enter__", lambda process: process)
    patch.setattr(FreshProcess, "__exit__", lambda *_: None)
    patch.setattr(FreshProcess, "scores", scores)
