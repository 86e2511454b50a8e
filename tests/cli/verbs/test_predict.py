"""`headswap predict`."""

import io
import json
import re
import sys
from pathlib import Path

import pytest

import headswap as hs
from cli_calls import call, call_wrong, modules_after
from headswap.cli.exit_codes import run
from headswap.inference.embed import embed_texts


def test_predict_does_not_import_scikit_learn_or_scipy(shared: Path) -> None:
    found = modules_after("predict", str(shared / "classifier"), "a fine film")
    assert "torch" in found
    assert not {"sklearn", "scipy", "matplotlib"} & found


def test_predict_prints_one_object_per_line_in_input_order(
    capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = ["the film was superb .", "the film was dull and the story was awful .", "the music was lovely ."]
    given = call(capsys, "predict", shared / "classifier", *texts, "--json")
    answers = [json.loads(line) for line in given.splitlines()]
    assert [answer["label"] for answer in answers] == ["pos", "neg", "pos"]
    for answer in answers:
        assert set(answer) == {"label", "scores"}
        assert set(answer["scores"]) == {"neg", "pos"}
        assert sum(answer["scores"].values()) == pytest.approx(1)
        assert answer["label"] == max(answer["scores"], key=answer["scores"].__getitem__)
    (tmp_path / "texts.txt").write_text("\n".join(texts) + "\n")
    assert call(capsys, "predict", shared / "classifier", "--file", tmp_path / "texts.txt", "--json") == given
    for extra in ([], ["--file", "-"]):
        monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(texts) + "\n"))
        assert call(capsys, "predict", shared / "classifier", "--json", *extra) == given
    plain = call(capsys, "predict", shared / "classifier", texts[0])
    assert re.match(r"pos\t[01]\.\d{4}\n", plain)
    assert "both given" in call_wrong(capsys, "predict", shared / "classifier", "x", "--file", "y")
    monkeypatch.setattr("sys.stdin", io.StringIO("one\n\nthree\n"))
    assert "line 2" in call_wrong(capsys, "predict", shared / "classifier")
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(texts) + "\n\n \n"))
    assert call(capsys, "predict", shared / "classifier", "--json", "--file", "-") == given, "blank lines at the end"
    monkeypatch.setattr("sys.stdin", io.StringIO("\n\n"))
    assert "has no text" in call_wrong(capsys, "predict", shared / "classifier")
    (tmp_path / "texts.csv").write_text('text\n"one"\n" "\n')
    said = call_wrong(capsys, "predict", shared / "classifier", "--file", tmp_path / "texts.csv")
    assert "texts.csv has no text in row 2 (a header is not counted)." in said


def test_no_texts_give_no_predictions(shared: Path) -> None:
    classifier = hs.load(shared / "classifier")
    assert classifier.predict([]) == []
    assert classifier.predictions(()) == []
    assert embed_texts(classifier.bundle, []).shape == (0, 32)


def test_dash_is_standard_input(
    capsys: pytest.CaptureFixture[str], shared: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = call(capsys, "predict", shared / "classifier", "a good film", "a bad film")
    monkeypatch.setattr(sys, "stdin", io.StringIO("a good film\na bad film\n"))
    assert call(capsys, "predict", shared / "classifier", "-") == expected
    assert "cannot be mixed" in call_wrong(capsys, "predict", shared / "classifier", "-", "a good film")


def test_pattern_that_matches_several_files_is_refused(
    capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path
) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("a good film\n")
    said = call_wrong(capsys, "predict", shared / "classifier", "--file", tmp_path / "*.txt")
    assert "matches 2 files" in said


@pytest.mark.parametrize("text", ["", "  "])
def test_blank_text_is_refused(capsys: pytest.CaptureFixture[str], shared: Path, text: str) -> None:
    assert "Text 2 of 2 is blank" in call_wrong(capsys, "predict", shared / "classifier", "a film", text)


def test_a_file_that_is_given_as_a_text_is_noticed(
    capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path
) -> None:
    file = tmp_path / "texts.csv"
    file.write_text("text\na film\n")
    assert run(["predict", str(shared / "classifier"), str(file)]) == 0
    assert f"{file} is a file, but was read as a text. Pass --file {file}" in capsys.readouterr().err
    assert run(["predict", str(shared / "classifier"), "日本" * 120]) == 0, "too long for the name of a file"
