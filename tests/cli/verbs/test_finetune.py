"""`headswap finetune`."""

from pathlib import Path

import pytest

from cli_calls import MACHINE, call, call_json
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
