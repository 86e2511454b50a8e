"""Masked tokens and pairs of segments."""

from pathlib import Path

import pytest

import headswap as hs
from headswap.core.errors import InputError
from tiny import STORY_SETTINGS

pytestmark = pytest.mark.usefixtures("one_thread")


def test_masks_do_not_depend_on_accumulation(stories: Path, tmp_path: Path) -> None:
    losses = []
    for parts in (1, 4):
        settings = {**STORY_SETTINGS, "max_steps": 6, "logging_steps": 1, "objective": "masked+nsp", "vocab_size": 280}
        run = hs.pretrain(
            stories / "corpus.txt", out=tmp_path / str(parts), gradient_accumulation_steps=parts, **settings
        )
        losses.append([line["train_loss"] for line in run.metrics() if "train_loss" in line])
    assert losses[0] == pytest.approx(losses[1], rel=1e-4)


def test_pairs_need_documents_of_several_sentences(stories: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="has two sentences"):
        hs.pretrain(stories / "lines.txt", out=tmp_path / "run", objective="masked+nsp", max_steps=1, **STORY_SETTINGS)
