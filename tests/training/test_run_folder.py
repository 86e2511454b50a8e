"""Where a run may start, what it replaces, and what is in its folder."""

from pathlib import Path

import pytest

import headswap as hs
from headswap.core.errors import InputError, SettingError
from headswap.core.settings import load_recipe
from headswap.finetuning.config import FinetuneRecipe
from headswap.pretraining.config import PretrainRecipe
from reliability.runs import Crash
from tiny import ONE_THREAD, PRETRAIN, SCRATCH


def test_a_folder_with_other_files_is_an_error(tiny_runs: Path, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    for overwrite, word in ((False, "not empty"), (True, "notes.txt")):
        with pytest.raises(SettingError, match=word):
            hs.pretrain(tiny_runs / "corpus.txt", out=tmp_path / "run", max_steps=1, overwrite=overwrite, **PRETRAIN)
    assert (tmp_path / "run" / "notes.txt").read_text() == "mine"


def test_overwrite_replaces_a_run(tiny_runs: Path, tmp_path: Path) -> None:
    first = hs.pretrain(tiny_runs / "corpus.txt", out=tmp_path / "run", max_steps=4, **PRETRAIN)
    assert first.result["steps"] == 4
    with pytest.raises(SettingError, match="not empty"):
        hs.pretrain(tiny_runs / "corpus.txt", out=tmp_path / "run", max_steps=2, **PRETRAIN)
    second = hs.pretrain(tiny_runs / "corpus.txt", out=tmp_path / "run", max_steps=2, overwrite=True, **PRETRAIN)
    assert second.result["steps"] == 2
    assert max(line["step"] for line in second.metrics()) == 2
    assert not (second.path / "checkpoints" / "step-00000004").exists()


def test_an_overwrite_that_cannot_start_leaves_the_old_run(tiny_runs: Path, tmp_path: Path) -> None:
    run = hs.pretrain(tiny_runs / "corpus.txt", out=tmp_path / "run", max_steps=2, **PRETRAIN)
    before = run.result
    with pytest.raises(InputError):
        hs.pretrain(tmp_path / "missing.txt", out=tmp_path / "run", max_steps=2, overwrite=True, **PRETRAIN)
    assert run.result == before


def test_overwrite_and_resume_exclude_each_other(corpus_file: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="both given"):
        hs.pretrain(corpus_file, out=tmp_path / "x", overwrite=True, resume=True)


def test_a_run_never_removes_what_it_reads(tiny_runs: Path, tiny_base: hs.Run) -> None:
    for flags in ({"overwrite": True}, {}):
        with pytest.raises(SettingError, match="the input"):
            hs.finetune(tiny_base, train=tiny_runs / "few.jsonl", out=tiny_base.path, **flags)
    assert tiny_base.model.bundle.model is not None


def test_a_missing_input_leaves_no_folder(tiny_runs: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"missing\.txt"):
        hs.pretrain(tmp_path / "missing.txt", out=tmp_path / "run", **PRETRAIN)
    with pytest.raises(InputError, match=r"missing\.jsonl"):
        hs.finetune(out=tmp_path / "run", train=tmp_path / "missing.jsonl", **SCRATCH)
    with pytest.raises(InputError, match="nowhere"):
        hs.finetune(tmp_path / "nowhere", out=tmp_path / "run", train=tiny_runs / "few.jsonl", **ONE_THREAD)
    assert not (tmp_path / "run").exists()


def test_loading_an_unfinished_run_is_an_error_that_states_how_to_finish_it(tiny_runs: Path, tmp_path: Path) -> None:
    with pytest.raises(MemoryError, match="by the test"):
        hs.pretrain(
            tiny_runs / "corpus.txt", out=tmp_path / "run", max_steps=4, save_steps=1, logging_steps=2,
            observer=Crash(2), **PRETRAIN,
        )  # fmt: skip
    with pytest.raises(InputError, match=r"has not finished.*--resume"):
        hs.load(tmp_path / "run")


@pytest.mark.parametrize(("name", "kind"), [("base", PretrainRecipe), ("classifier", FinetuneRecipe)])
def test_the_saved_recipe_has_all_settings_and_reloads_equal(
    tiny_runs: Path, tmp_path: Path, name: str, kind: type
) -> None:
    recipe = load_recipe(kind, tiny_runs / name / "recipe.toml")
    recipe.save(tmp_path / "again.toml")
    assert load_recipe(kind, tmp_path / "again.toml") == recipe
    assert (tmp_path / "again.toml").read_bytes() == (tiny_runs / name / "recipe.toml").read_bytes()
    assert recipe.training.learning_rate is not None
    assert recipe.training.max_length == 24
