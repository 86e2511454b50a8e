"""Fixtures: a cache for tests, log messages in caplog, a fixed thread count, a corpus, a tokenizer, tiny runs."""

import logging
import os
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import torch
from docstring_parser.attrdoc import AttributeDocstrings

import headswap as hs
from boxed import Box
from headswap.data.records import Document
from headswap.tokens.config import TokenizerSettings
from headswap.tokens.tokenizer import Tokenizer
from headswap.tokens.train_tokenizer import train_tokenizer
from reloading import reload_here
from tiny import ONE_THREAD, PRETRAIN, sentences, write_labelled

Report = TypeVar("Report", pytest.CollectReport, pytest.TestReport)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-skips", action="store_true", help="A skipped test or file fails: everything is installed.")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _without_skips(collector.config, (yield))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _without_skips(item.config, (yield))


def _without_skips(config: pytest.Config, report: Report) -> Report:
    """With --no-skips the report of a skip becomes one of a failure, with the reason of the skip."""
    if report.outcome == "skipped" and config.getoption("--no-skips"):
        report.outcome = "failed"
        report.longrepr = f"skipped with --no-skips: {report.longrepr}"
    return report


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads or writes the user's cache."""
    monkeypatch.setenv("HEADSWAP_CACHE", str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def _messages_reach_caplog() -> Iterator[None]:
    """The command line changes the logger; restore it after each test."""
    logger = logging.getLogger("headswap")
    before = logger.propagate, logger.level, list(logger.handlers)
    logger.propagate = True
    logger.setLevel(logging.INFO)
    yield
    logger.propagate, logger.level, logger.handlers[:] = before


@pytest.fixture(autouse=True)
def _reload_here(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reload check runs in this process: a new Python process per tiny fine-tuning would take minutes.

    Subprocesses and tests marked `fresh_process` start a new process as users' runs do.
    """
    if "fresh_process" not in request.keywords:
        reload_here(monkeypatch)


@pytest.fixture
def corpus_file(tmp_path: Path) -> Path:
    """300 sentences, one per line."""
    file = tmp_path / "corpus.txt"
    file.write_text("".join(f"{text}\n" for text, _ in sentences(300)), encoding="utf-8")
    return file


@pytest.fixture(scope="session")
def stories(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with corpus.txt, documents of six sentences, and lines.txt, documents of one sentence."""
    folder = tmp_path_factory.mktemp("stories")
    texts = [text for text, _ in sentences(900)]
    documents = [" ".join(texts[at : at + 6]) for at in range(0, len(texts), 6)]
    (folder / "corpus.txt").write_text("\n".join(documents) + "\n", encoding="utf-8")
    (folder / "lines.txt").write_text("\n".join(text.rstrip(" .") for text in texts[:200]) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="session", autouse=True)
def _number_of_threads() -> None:
    """Two threads; one in each of several test processes (pytest -n), which share the cores."""
    torch.set_num_threads(1 if "PYTEST_XDIST_WORKER" in os.environ else 2)


@pytest.fixture(scope="session", autouse=True)
def _sources_are_parsed_once() -> Iterator[None]:
    """Every call of a verb reads the field docs of its settings from the source, half a second; keep them."""
    read = AttributeDocstrings.get_attr_docs
    known: dict[Any, dict[str, Any]] = {}

    def read_once(reader: AttributeDocstrings, component: Any) -> dict[str, Any]:
        if component not in known:
            known[component] = read(reader, component)
        return known[component]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(AttributeDocstrings, "get_attr_docs", read_once)
        yield


@pytest.fixture
def one_thread() -> Iterator[None]:
    """One thread: tiny tensors gain nothing from a second one and are slow on busy cores."""
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
    """A folder in which tests install bases."""
    return Box(tmp_path / "site", monkeypatch)


@pytest.fixture(scope="session")
def tiny_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus, labelled sets, and the finished runs `base` and `classifier`; tests must not change them."""
    folder = tmp_path_factory.mktemp("tiny-runs")
    (folder / "corpus.txt").write_text("".join(f"{text}\n" for text, _ in sentences(300)), encoding="utf-8")
    write_labelled(folder / "train.jsonl", 240)
    write_labelled(folder / "few.jsonl", 60)
    write_labelled(folder / "validation.jsonl", 30, seed=4)
    write_labelled(folder / "test.jsonl", 100, seed=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADSWAP_CACHE", str(folder / "cache"))
        reload_here(patch)
        hs.pretrain(folder / "corpus.txt", out=folder / "base", max_steps=30, logging_steps=5, **PRETRAIN)
        hs.finetune(
            folder / "base",
            out=folder / "classifier",
            train=folder / "train.jsonl",
            test=folder / "test.jsonl",
            num_train_epochs=5,
            learning_rate=5e-3,
            **ONE_THREAD,
        )
    return folder


@pytest.fixture
def tiny_base(tiny_runs: Path) -> hs.Run:
    """A pre-training run of 30 steps on the small grammar."""
    return hs.Run(tiny_runs / "base")


@pytest.fixture
def tiny_classifier(tiny_runs: Path) -> hs.Run:
    """The base above, fine-tuned for 5 epochs on the small grammar."""
    return hs.Run(tiny_runs / "classifier")
