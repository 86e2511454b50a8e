"""The sample of a tokenizer, taken by tasks on a real Ray cluster: the same as here, also if a worker is killed."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("ray", reason="needs ray: make test-ecosystem")

from ray import cloudpickle

from headswap.core import task_pool
from headswap.core.errors import InputError, RunError
from headswap.data.config import ReadSettings
from headswap.tokens import tokenizer_sample
from headswap.tokens.config import TokenizerSettings
from headswap.tokens.tokenizer_sample import sample_corpus, sample_part
from headswap.tokens.train_tokenizer import train_on_corpus
from tiny import sentences

pytestmark = [pytest.mark.ecosystem, pytest.mark.usefixtures("one_thread")]
LINES = ReadSettings(documents="line")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(4):
        texts = [f"file{number} {text}" for text, _ in sentences(100, seed=number)]
        (folder / f"{number}.txt").write_text("\n".join(texts) + "\n")
    return folder


def sampled(corpus: Path, executor: str) -> tuple[list[bytes], int]:
    work = corpus.parent / "work"
    return sample_corpus([str(corpus)], LINES, work, executor=executor, max_bytes=8_000, part_bytes=1)


@pytest.mark.parametrize("num_workers", [1, 2])
def test_the_sample_and_the_tokenizer_are_those_of_one_process(
    corpus: Path, monkeypatch: pytest.MonkeyPatch, num_workers: int
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: num_workers)
    local = sampled(corpus, "local")
    assert {data.split()[0] for data in local[0]} == {b"file0", b"file1", b"file2", b"file3"}
    assert sampled(corpus, "ray") == local
    settings = TokenizerSettings(vocab_size=300)
    made = [
        train_on_corpus([str(corpus)], LINES, settings, corpus.parent, executor=executor, max_bytes=8_000).fingerprint
        for executor in ("local", "ray")
    ]
    assert made[0] == made[1]


def killed_once(folder: str, number: int) -> None:
    begun = Path(folder) / f"named-{number}.jsonl"
    if number == 1 and not begun.exists():
        begun.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    sample_part(folder, number)


def killed_always(folder: str, number: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.fixture
def functions_of_this_file() -> Any:
    """Sent to the workers as code: they cannot import a file of tests."""
    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)
    yield
    cloudpickle.unregister_pickle_by_value(module)


@pytest.mark.usefixtures("functions_of_this_file")
def test_a_killed_worker_costs_nothing_and_a_task_that_is_always_killed_is_a_sentence(
    corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = sampled(corpus, "local")
    monkeypatch.setattr(tokenizer_sample, "sample_part", killed_once)
    assert sampled(corpus, "ray") == local
    monkeypatch.setattr(tokenizer_sample, "sample_part", killed_always)
    monkeypatch.setattr(task_pool, "MOST_RETRIES", 1)
    with pytest.raises(RunError, match="A task was lost by the Ray cluster"):
        sampled(corpus, "ray")
    assert not list((corpus.parent / "work").iterdir())


def test_a_file_that_is_not_text_is_the_same_sentence_as_here(corpus: Path) -> None:
    (corpus / "3.txt").write_bytes(b"\xff\n")
    with pytest.raises(InputError, match=r"3\.txt, line 1: byte 0xFF is not UTF-8 text"):
        sampled(corpus, "ray")
