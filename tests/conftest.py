"""Fixtures: a cache of the tests' own, messages that reach caplog, a fixed thread count, a corpus, a tokenizer."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from boxed import Box
from headswap.data.records import Document
from headswap.tokens.config import TokenizerSettings
from headswap.tokens.tokenizer import Tokenizer
from headswap.tokens.train_tokenizer import train_tokenizer
from reloading import reload_here
from tiny import sentences


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or fills the user's cache."""
    monkeypatch.setenv("HEADSWAP_CACHE", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def _messages_reach_caplog() -> Iterator[None]:
    """The command line takes the messages over; tests get them back."""
    logger = logging.getLogger("headswap")
    before = logger.propagate, logger.level, list(logger.handlers)
    logger.propagate = True
    logger.setLevel(logging.INFO)
    yield
    logger.propagate, logger.level, logger.handlers[:] = before


@pytest.fixture(autouse=True)
def _reload_here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bundles are read back in this process: a new Python for every tiny fine-tuning would take minutes.

    Commands that tests start in a process of their own, and tests marked `fresh_process`, do the real thing.
    """
    if "fresh_process" not in request.keywords:
        reload_here(monkeypatch)


@pytest.fixture
def corpus_file(tmp_path: Path) -> Path:
    """300 sentences, one a line."""
    file = tmp_path / "corpus.txt"
    file.write_text("".join(f"{text}\n" for text, _ in sentences(300)), encoding="utf-8")
    return file


@pytest.fixture(scope="session", autouse=True)
def _two_threads() -> None:
    torch.set_num_threads(2)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Tensors this small gain nothing from a second thread, and lose much where the cores are busy."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tokenizer() -> Tokenizer:
    """Byte-level BPE of 300 tokens on the small grammar."""
    documents = [Document(text, "tests", number) for number, (text, _) in enumerate(sentences(50), 1)]
    return train_tokenizer(documents, TokenizerSettings(kind="bpe", vocab_size=300))


@pytest.fixture
def box(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Box:
    """A place where tests install bases of their own."""
    return Box(tmp_path / "site", monkeypatch)
