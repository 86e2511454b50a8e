"""What a run passes on: no folder of the machine, and files with the mode of the umask."""

import os
import stat
from pathlib import Path

import pytest

import headswap as hs
from headswap.core.settings import load_recipe
from headswap.finetuning.config import FinetuneRecipe
from tiny import ONE_THREAD, PRETRAIN, sentences, write_labelled

TEXTS = (".json", ".toml", ".md", ".jsonl")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with data, and a current folder in it."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("HOME", str(tmp_path))
    write_labelled(tmp_path / "train.jsonl", 40)
    (tmp_path / "corpus.txt").write_text("".join(f"{text}\n" for text, _ in sentences(80)), encoding="utf-8")
    return tmp_path


def test_no_absolute_path_is_in_a_run_and_it_can_be_repeated_and_resumed(home: Path) -> None:
    base = hs.pretrain(home / "corpus.txt", out=home / "base", max_steps=2, vocab_size=300, **PRETRAIN)
    adapted = hs.adapt(base, home / "corpus.txt", out=home / "adapted", max_steps=2, batch_size=4, **ONE_THREAD)
    settings = {"train": home / "train.jsonl", "test": home / "train.jsonl", "max_steps": 2, **ONE_THREAD}
    run = hs.finetune(adapted, out=home / "run", **settings)
    for folder in (base.path, adapted.path, run.path):
        files = [file for file in folder.rglob("*") if file.suffix in TEXTS]
        assert {"config.json", "README.md", "recipe.toml", "environment.json", "result.json"} <= {f.name for f in files}
        for file in files:
            assert str(home) not in file.read_text(encoding="utf-8"), file
    assert run.result["base"] == run.model.card["base"] == "adapted"
    assert len(run.model.card["checksum of the base"]) == 32
    assert load_recipe(FinetuneRecipe, run.path / "recipe.toml").data.train == str(home / "train.jsonl")
    again = hs.finetune(config=run.path / "recipe.toml", out=home / "again")
    assert again.result["test"] == run.result["test"]
    hs.finetune(adapted, out=home / "run", resume=True, **settings)


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002])
def test_all_files_of_a_run_have_the_mode_of_the_umask(home: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        run = hs.pretrain(home / "corpus.txt", out=home / "base", max_steps=2, vocab_size=300, **PRETRAIN)
    finally:
        os.umask(before)
    files = [file for file in run.path.rglob("*") if file.is_file() and file.name != ".lock"]
    modes = {str(file.relative_to(run.path)): stat.S_IMODE(file.stat().st_mode) for file in files}
    assert "bundle/model.safetensors" in modes
    assert set(modes.values()) == {0o666 & ~mask}, modes
