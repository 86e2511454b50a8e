"""Bundles that are read back in this process: a new Python for every tiny fine-tuning would take minutes."""

import pytest

from headswap.finetuning.reload_check import FreshProcess, SameProcess


def reload_here(patch: pytest.MonkeyPatch) -> None:
    """Let this process play the fresh one."""
    for name in ("__enter__", "__exit__", "scores"):
        patch.setattr(FreshProcess, name, getattr(SameProcess, name))
