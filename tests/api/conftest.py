"""A classifier and two bases that the tests of the Python interface share."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import headswap as hs
from reloading import reload_here
from tiny import SMALL, sentences, write_labelled


@contextmanager
def made_once(folder: Path) -> Iterator[None]:
    """Runs that several tests share do not use the user's cache, and start no new process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADSWAP_CACHE", str(folder / "cache"))
        reload_here(patch)
        yield


@pytest.fixture(scope="session")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> hs.Run:
    """A fine-tuning of two epochs."""
    folder = tmp_path_factory.mktemp("classifier")
    train, test = write_labelled(folder / "train.jsonl", 60), write_labelled(folder / "test.jsonl", 20, seed=2)
    with made_once(folder):
        return hs.finetune("scratch", train=train, test=test, out=folder / "run", num_train_epochs=2, **SMALL)


@pytest.fixture(scope="session")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, hs.Run]:
    """A causal and a masked base."""
    texts = hs.Texts(text for text, _ in sentences(60))
    folder = tmp_path_factory.mktemp("bases")
    more = {"vocab_size": 300, "max_steps": 2, **SMALL}
    with made_once(folder):
        return {
            objective: hs.pretrain(texts, out=folder / objective, objective=objective, **more)
            for objective in ("causal", "masked")
        }
