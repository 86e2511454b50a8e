"""Which settings and inputs may change when a run is resumed."""

from pathlib import Path

import pytest

import headswap as hs
from headswap.core.errors import SettingError
from reliability import runs
from reliability.runs import Crash, write_files
from tiny import ONE_THREAD, PRETRAIN, write_labelled


def test_resuming_with_other_settings_is_refused_and_names_them(tiny_runs: Path, tmp_path: Path) -> None:
    given = {"out": tmp_path / "run", "max_steps": 6, "save_steps": 1, **PRETRAIN}
    with pytest.raises(MemoryError, match="by the test"):
        hs.pretrain(tiny_runs / "corpus.txt", logging_steps=2, observer=Crash(4), **given)
    with pytest.raises(SettingError, match=r"training\.learning_rate was .* and is now 0\.5"):
        hs.pretrain(tiny_runs / "corpus.txt", logging_steps=2, learning_rate=0.5, resume=True, **given)
    run = hs.pretrain(tiny_runs / "corpus.txt", logging_steps=3, resume=True, **given)  # does not affect results
    assert run.result["steps"] == 6


def test_a_run_whose_corpus_changed_is_not_resumed(corpus_file: Path, tmp_path: Path) -> None:
    settings = {**PRETRAIN, "max_steps": 20, "save_steps": 5, "logging_steps": 5}
    tokenizer = hs.pretrain(corpus_file, out=tmp_path / "first", **{**settings, "max_steps": 1}).path
    settings["tokenizer"] = str(tokenizer)
    with pytest.raises(MemoryError, match="by the test"):
        hs.pretrain(corpus_file, out=tmp_path / "run", observer=Crash(10), **settings)
    corpus_file.write_text(corpus_file.read_text().replace("film", "story"))
    with pytest.raises(SettingError, match="The corpus changed since"):
        hs.pretrain(corpus_file, out=tmp_path / "run", resume=True, **settings)


def test_a_finished_run_is_compared_with_settings_data_and_verb(tiny_runs: Path, tmp_path: Path) -> None:
    corpus, base = tiny_runs / "corpus.txt", tiny_runs / "base"
    assert hs.pretrain(corpus, out=base, resume=True, max_steps=30, **PRETRAIN).result["steps"] == 30
    with pytest.raises(SettingError, match=r"training\.max_steps was 30 and is now 60"):
        hs.pretrain(corpus, out=base, resume=True, max_steps=60, **PRETRAIN)
    with pytest.raises(SettingError, match="holds a run of headswap pretrain"):
        hs.finetune("scratch", train=tiny_runs / "few.jsonl", out=base, resume=True)
    train = write_labelled(tmp_path / "train.jsonl", 60)
    given = {"train": train, "out": tmp_path / "classifier", "max_steps": 1, **ONE_THREAD}
    hs.finetune(base, **given)
    write_labelled(train, 62)
    with pytest.raises(SettingError, match="The training set changed since"):
        hs.finetune(base, resume=True, **given)


def test_a_run_whose_base_changed_is_not_resumed(corpus_file: Path, tiny_runs: Path, tmp_path: Path) -> None:
    base = hs.pretrain(corpus_file, out=tmp_path / "base", max_steps=2, **PRETRAIN)
    settings = {
        "train": tiny_runs / "few.jsonl",
        "out": tmp_path / "run",
        "max_steps": 8,
        "save_steps": 2,
        "logging_steps": 2,
    }
    with pytest.raises(MemoryError, match="by the test"):
        hs.finetune(base, observer=Crash(4), threads=1, **settings)
    hs.pretrain(corpus_file, out=base.path, overwrite=True, max_steps=2, seed=7, **PRETRAIN)
    with pytest.raises(SettingError, match="The base changed since"):
        hs.finetune(base, resume=True, threads=1, **settings)


def test_a_base_cannot_replace_scratch(tiny_base: hs.Run, tmp_path: Path) -> None:
    files = write_files(tmp_path)
    with pytest.raises(MemoryError):
        runs.finetune(files, "cut", observer=Crash(12))
    with pytest.raises(SettingError, match=r"model\.base was 'scratch'"):
        hs.finetune(tiny_base, train=files / "train.jsonl", out=files / "cut", resume=True)
