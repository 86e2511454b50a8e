"""`headswap labels`: lists and renames; control characters never reach the terminal."""

import json
import shutil
from pathlib import Path

import pytest

import headswap as hs
from headswap.cli.exit_codes import run

HOSTILE = "\x1b[2J\u202epos\n\tx"
ESCAPED = r"\x1b[2J\u202epos\n\tx"


@pytest.fixture
def classifier(tiny_runs: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_runs / "classifier" / "bundle", tmp_path / "bundle"))


def test_labels_are_listed_and_renamed(classifier: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["labels", str(classifier)]) == 0
    assert capsys.readouterr().out == "neg\npos\n"
    before = hs.load(classifier).predict(["the film was superb ."])
    assert run(["labels", str(classifier), "neg=bad film", "pos=good film"]) == 0
    said = capsys.readouterr()
    assert said.out == "bad film\ngood film\n"
    assert "2 of 2 labels renamed" in said.err
    assert (before, hs.load(classifier).predict(["the film was superb ."])) == (["pos"], ["good film"])
    assert run(["labels", str(classifier), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["labels"] == ["bad film", "good film"]
    assert run(["labels", str(classifier), "neg=x"]) == 2
    assert "'neg' is not a label of this model" in capsys.readouterr().err


def test_a_model_with_other_names_predicts_the_same(tiny_classifier: hs.Run, tmp_path: Path) -> None:
    model = tiny_classifier.model.rename_labels({"pos": "good"})
    assert model.predict(["the film was superb ."]) == ["good"]
    model.save(tmp_path / "renamed")
    assert hs.load(tmp_path / "renamed").labels == ("neg", "good")


def test_a_label_with_control_characters_is_one_visible_line(
    classifier: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["labels", str(classifier), f"pos={HOSTILE}"]) == 0
    assert capsys.readouterr().out == f"neg\n{ESCAPED}\n"
    assert run(["predict", str(classifier), "the film was superb ."]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"{ESCAPED}\t0.")
    assert said.count("\n") == 1
    assert run(["predict", str(classifier), "the film was superb .", "--json"]) == 0
    said = capsys.readouterr().out
    assert "\u202e" not in said
    assert json.loads(said)["label"] == HOSTILE


def test_a_file_name_with_control_characters_is_visible_in_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["predict", "no\x1b[2Jbundle", "x"]) == 2
    said = capsys.readouterr().err
    assert "\x1b" not in said
    assert r"no\x1b[2Jbundle does not exist" in said
