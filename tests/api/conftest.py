"""A classifier and two bases that the tests of the Python interface share."""

from collections.abc import Iterator

import pytest

import headswap as hs
from reloading import reload_here
from tiny import SMALL, sentences, write_labelled


@pytest.fixture(scope="session")
def _made_once(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Runs that are made before a test starts do not use the user's cache either."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADSWAP_CACHE", str(tmp_path_factory.mktemp("cache")))
        reload_here(patch)
        yield


@pytest.fixture(scope="session")
def classifier(tmp_path_factory: pytest.TempPathFactory, _made_once: None) -> hs.Run:
    """A fine-tuning of two epochs."""
    folder = tmp_path_factory.mktemp("classifier")
    train, test = write_labelled(folder / "train.jsonl", 60), write_labelled(folder / "test.jsonl", 20, seed=2)
    return hs.finetune("scratch", train=train, test=test, out=folder / "run", num_train_epochs=2, **SMALL)


@pytest.fixture(scope="session")
def bases(tmp_path_factory: pytest.TempPathFactory, _made_once: None) -> dict[str, hs.Run]:
    """A causal and a masked base."""
    texts = hs.Texts(text for text, _ in sentences(60))
    folder = tmp_path_factory.mktemp("bases")
    return {
        objective: hs.pretrain(texts, out=folder / objective, objective=objective, vocab_size=300, max_steps=2, **SMALL)
        for objective in ("causal", "masked")
    }
