"""Files and models that the tests of the verbs share."""

from pathlib import Path
from typing import Any

import pytest

import headswap as hs
from cli_calls import SHAPE
from reloading import reload_here
from tiny import sentences, write_labelled


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a corpus, labelled sets, a base and a classifier."""
    folder = tmp_path_factory.mktemp("cli")
    (folder / "corpus.txt").write_text("".join(f"{text}\n" for text, _ in sentences(120)), encoding="utf-8")
    write_labelled(folder / "train.jsonl", 60)
    write_labelled(folder / "test.jsonl", 20, seed=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADSWAP_CACHE", str(folder / "cache"))
        reload_here(patch)
        machine: dict[str, Any] = {"device": "cpu", "threads": 1}
        base = hs.pretrain(folder / "corpus.txt", out=folder / "base", max_steps=5, max_length=24, **SHAPE, **machine)
        hs.finetune(
            base, out=folder / "classifier", train=folder / "train.jsonl", num_train_epochs=6, learning_rate=0.01,
            **machine,
        )  # fmt: skip
    return folder
