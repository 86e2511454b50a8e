"""`headswap pack`: what it writes, and what it refuses before anything is computed."""

from pathlib import Path
from typing import Any

import pytest

import headswap as hs
from cli_calls import SHAPE, call_json, call_wrong
from headswap.bundle.bundle import Bundle
from headswap.cli.exit_codes import run
from headswap.core.files import read_json
from tiny import sentences


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, reference sentences and a card."""
    folder = tmp_path_factory.mktemp("pack")
    (folder / "corpus.txt").write_text("".join(f"{text}\n" for text, _ in sentences(120)), encoding="utf-8")
    (folder / "reference.txt").write_text("the film was warm .\nthe ending was cold .\n", encoding="utf-8")
    (folder / "blank.txt").write_text("one\n\nthree\n", encoding="utf-8")
    (folder / "about.toml").write_text('name = "letters"\nlimits = "letters only"\n', encoding="utf-8")
    (folder / "table.toml").write_text('[data]\nfile = "x"\n', encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADSWAP_CACHE", str(folder / "cache"))
        machine: dict[str, Any] = {"device": "cpu", "threads": 1}
        hs.pretrain(
            folder / "corpus.txt", out=folder / "run", max_steps=3, max_length=24, vocab_size=300,
            held_out_fraction=0.1, **SHAPE, **machine,
        )  # fmt: skip
    return folder


@pytest.fixture(autouse=True)
def _in_the_folder(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setenv("HEADSWAP_CACHE", str(folder / "cache"))
    monkeypatch.chdir(folder)


def test_pack_writes_a_bundle_with_its_card_and_a_record(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    given = ("pack", "run", "--out", tmp_path / "base", "--sentences", "reference.txt", "--about", "about.toml",
             "--licence", "MIT", "--beside", "corpus.txt")  # fmt: skip
    found = call_json(capsys, *given)
    card = Bundle.load(tmp_path / "base" / "bundle").card
    assert (card["name"], card["limits"], card["licence"]) == ("letters", "letters only", "MIT")
    record = tmp_path / "base" / "record"
    assert (record / "reference.txt").read_text() == (Path("reference.txt")).read_text()
    assert (record / "corpus.txt").is_file()
    assert found["reference_loss"] == read_json(record / "reference.json")["loss"]
    assert found["bytes"] == sum(file.stat().st_size for file in (tmp_path / "base").rglob("*") if file.is_file())
    assert "already exists" in call_wrong(capsys, *given)
    assert call_json(capsys, *given, "--overwrite")["loss"] == found["loss"]


def test_missing_licence_and_limits_are_reported(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["pack", "run", "--out", str(tmp_path / "base"), "--sentences", "reference.txt"]) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert "The model card states no licence and no limits, so headswap bases" in err
    assert "before rounding to bf16" in err


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ((), "--sentences is missing"),
        (("--sentences", "nothing.txt"), "nothing.txt does not exist"),
        (("--sentences", "blank.txt"), "blank.txt has no text in line 2"),
        (("--sentences", "reference.txt", "--about", "nothing.toml"), "nothing.toml does not exist"),
        (("--sentences", "reference.txt", "--about", "table.toml"), "'data' is a dict. An entry of a card is a text"),
        (
            ("--sentences", "reference.txt", "--about", "about.toml", "--limits", "x"),
            "'limits' is in about.toml and",
        ),
        (("--sentences", "reference.txt", "--licence", " "), "--licence is empty"),
        (("--sentences", "reference.txt", "--beside", "nothing.md"), "nothing.md does not exist"),
        (("--sentences", "reference.txt", "--beside", "run"), "run is a folder. --beside takes files"),
    ],
)
def test_wrong_use_is_refused_before_anything_is_written(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, more: tuple[str, ...], words: str
) -> None:
    assert words in call_wrong(capsys, "pack", "run", "--out", tmp_path / "base", *more)
    assert not (tmp_path / "base").exists()


def test_folder_that_is_no_run_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    given = ("--out", tmp_path / "base", "--sentences", "reference.txt")
    assert "is not a run folder" in call_wrong(capsys, "pack", "run/bundle", *given)
    assert "the input" in call_wrong(capsys, "pack", "run", "--out", "run", *given[2:], "--overwrite")
