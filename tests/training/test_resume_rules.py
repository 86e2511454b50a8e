"""Which settings and inputs may change when a run is resumed."""

import json
from pathlib import Path
from typing import Any

import pytest

import headswap as hs
from headswap.core.errors import SettingError
from headswap.data.records import Document
from headswap.tokens.config import TokenizerSettings
from headswap.tokens.store import build_store
from headswap.tokens.train_tokenizer import train_tokenizer
from reliability import runs
from reliability.runs import Crash, write_files
from task_data import paired, write_rows
from tiny import ONE_THREAD, PRETRAIN, write_labelled


def test_resuming_with_other_settings_is_refused_and_names_them(tiny_runs: Path, tmp_path: Path) -> None:
    given = {"out": tmp_path / "run", "max_steps": 6, "save_steps": 1, **PRETRAIN}
    with pytest.raises(MemoryError, match="by the test"):
        hs.pretrain(tiny_runs / "corpus.txt", logging_steps=2, observer=Crash(4), **given)
    with pytest.raises(SettingError, match=r"training\.learning_rate was .* and is now 0\.5"):
        hs.pretrain(tiny_runs / "corpus.txt", logging_steps=2, learning_rate=0.5, resume=True, **given)
    run = hs.pretrain(tiny_runs / "corpus.txt", logging_steps=3, resume=True, **given)  # does not affect results
    assert run.result["steps"] == 6


NEWER = ("head_norm", "head_similarity", "head_init")


def test_a_fine_tuning_of_a_version_without_newer_settings_of_heads_is_resumed(tiny_runs: Path, tmp_path: Path) -> None:
    train = write_rows(tmp_path / "train.jsonl", paired(40, seed=1))
    given: dict[str, Any] = {
        "train": train,
        "text_pair_column": "text_pair",
        "max_steps": 6,
        "save_steps": 1,
        **ONE_THREAD,
    }
    for encoding in ("joined", "separate"):
        given |= {"out": tmp_path / encoding, "pair_encoding": encoding}
        with pytest.raises(MemoryError, match="by the test"):
            hs.finetune(tiny_runs / "base", observer=Crash(4), **given)
        recipe = tmp_path / encoding / "recipe.toml"
        lines = recipe.read_text(encoding="utf-8").splitlines()
        assert sum(line.startswith(NEWER) for line in lines) == 3
        older = [line for line in lines if not line.startswith(NEWER)]
        recipe.write_text("\n".join(older) + "\n", encoding="utf-8")
        with pytest.raises(SettingError, match=r"head\.head_similarity was 'dot' and is now 'cosine'"):
            hs.finetune(tiny_runs / "base", resume=True, head_similarity="cosine", **given)
        if encoding == "joined":
            recipe.write_text("\n".join(line for line in older if "pair_encoding" not in line), encoding="utf-8")
            with pytest.raises(SettingError, match=r"head\.pair_encoding was 'joined' and is now 'separate'"):
                hs.finetune(tiny_runs / "base", resume=True, **{**given, "pair_encoding": None})
        assert hs.finetune(tiny_runs / "base", resume=True, **given).result["steps"] == 6


def test_a_run_whose_corpus_changed_is_not_resumed(corpus_file: Path, tmp_path: Path) -> None:
    settings = {**PRETRAIN, "max_steps": 20, "save_steps": 5, "logging_steps": 5}
    tokenizer = hs.pretrain(corpus_file, out=tmp_path / "first", **{**settings, "max_steps": 1}).path
    settings["tokenizer"] = str(tokenizer)
    with pytest.raises(MemoryError, match="by the test"):
        hs.pretrain(corpus_file, out=tmp_path / "run", observer=Crash(10), **settings)
    corpus_file.write_text(corpus_file.read_text().replace("film", "story"))
    with pytest.raises(SettingError, match=r"The corpus .*changed since"):
        hs.pretrain(corpus_file, out=tmp_path / "run", resume=True, **settings)


def write_store(folder: Path, corpus_file: Path, *, lines_per_document: int) -> Path:
    """A token store of whole words: its ids do not depend on where documents begin. It replaces an older one."""
    lines = corpus_file.read_text(encoding="utf-8").splitlines()
    whole = train_tokenizer([Document(line, "corpus", 1) for line in lines], TokenizerSettings(kind="word"))
    starts = range(0, len(lines), lines_per_document)
    texts = [" ".join(lines[start : start + lines_per_document]) for start in starts]
    build_store([Document(text, "corpus", 1) for text in texts], whole, folder)
    return folder


@pytest.mark.parametrize("is_finished", [False, True])
def test_a_run_is_not_resumed_from_a_token_store_that_was_rebuilt_in_place(
    corpus_file: Path, tmp_path: Path, is_finished: bool
) -> None:
    settings = {**PRETRAIN, "max_steps": 6, "save_steps": 2, "logging_steps": 2}
    store = write_store(tmp_path / "store", corpus_file, lines_per_document=1)
    if is_finished:
        hs.pretrain(store, out=tmp_path / "run", **settings)
    else:
        with pytest.raises(MemoryError, match="by the test"):
            hs.pretrain(store, out=tmp_path / "run", observer=Crash(4), **settings)
    ids = (store / "ids.bin").read_bytes()
    write_store(store, corpus_file, lines_per_document=2)
    assert (store / "ids.bin").read_bytes() == ids
    with pytest.raises(SettingError, match="The boundaries of the documents changed since"):
        hs.pretrain(store, out=tmp_path / "run", resume=True, **settings)
    write_store(store, corpus_file, lines_per_document=1)
    assert hs.pretrain(store, out=tmp_path / "run", resume=True, **settings).result["steps"] == 6


def test_a_run_without_recorded_checksums_is_not_resumed(corpus_file: Path, tmp_path: Path) -> None:
    """A run that an older version started has fewer checksums."""
    settings = {**PRETRAIN, "max_steps": 2}
    run = hs.pretrain(corpus_file, out=tmp_path / "run", **settings)
    data = json.loads((run.path / "data.json").read_text())
    del data["boundaries of the documents"]
    (run.path / "data.json").write_text(json.dumps(data))
    with pytest.raises(SettingError, match=r"has no checksum of the boundaries .* an older version of headswap"):
        hs.pretrain(corpus_file, out=run.path, resume=True, **settings)
    (run.path / "data.json").unlink()
    with pytest.raises(SettingError, match=r"has no checksum of the corpus .* the file was lost"):
        hs.pretrain(corpus_file, out=run.path, resume=True, **settings)


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
