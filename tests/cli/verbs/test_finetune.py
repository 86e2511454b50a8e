"""`headswap finetune`."""

from pathlib import Path

import pytest

from cli_calls import MACHINE, call, call_json, call_wrong
from headswap.cli.exit_codes import run
from headswap.core.files import read_json


def test_finetune_prints_test_scores_with_baselines(
    capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path
) -> None:
    given = ["finetune", "--base", shared / "base", "--train", shared / "train.jsonl", "--test", shared / "test.jsonl",
             "--num-train-epochs=1", "--out", tmp_path / "run", *MACHINE]  # fmt: skip
    found = call_json(capsys, *given)
    assert set(found["baselines"]) == {"majority", "tfidf"}
    assert found["test"]["num_examples"] == 20
    assert found["run"] == str(tmp_path / "run")
    table = call(capsys, *given, "--resume")
    assert "tfidf" in table
    assert "truth" in table


def test_best_epoch_is_reported_if_one_is_chosen(
    capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path
) -> None:
    given = ["finetune", "--base", shared / "base", "--train", shared / "train.jsonl", "--num-train-epochs=2", *MACHINE]
    chosen_on = ("--validation", shared / "test.jsonl")
    assert run([str(part) for part in (*given, *chosen_on, "--out", tmp_path / "a")]) == 0
    best = read_json(tmp_path / "a" / "result.json")["best_epoch"]
    said = capsys.readouterr().err
    assert f"Best epoch by validation accuracy: {best:g} of 2. Its weights are kept." in said
    assert run([str(part) for part in (*given, "--out", tmp_path / "b")]) == 0, "too few labels to choose on"
    said = capsys.readouterr().err
    assert "the last weights are kept" in said
    assert "Best epoch" not in said


@pytest.mark.parametrize("flag", ["--no-tied-head", "--lm-head-transform=gelu"])
def test_settings_of_the_language_modelling_head_are_refused(capsys: pytest.CaptureFixture[str], flag: str) -> None:
    said = call_wrong(capsys, "finetune", "--base=scratch", "--train=train.csv", "--out=run", flag)
    name = flag.partition("=")[0].replace("--no-", "--")
    assert f"{name}: no effect in headswap finetune. Leave it out." in said


def test_max_steps_replaces_the_number_of_epochs(
    capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path
) -> None:
    given = ["finetune", "--base", shared / "base", "--train", shared / "train.jsonl", "--out", tmp_path / "run"]
    found = call_json(capsys, *given, "--num-train-epochs=1", "--max-steps=12", "--batch-size=40", *MACHINE)
    assert found["steps"] == 12
