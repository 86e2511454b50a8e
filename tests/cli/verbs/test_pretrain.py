"""`headswap pretrain`."""

import json
from pathlib import Path

import pytest

from cli_calls import FLAGS, MACHINE, call, call_json, call_wrong
from headswap.cli.exit_codes import run
from headswap.core.errors import counted


def test_pretrain_prints_its_result_on_standard_output_and_messages_on_standard_error(
    capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path
) -> None:
    given = ["pretrain", shared / "corpus.txt", "--max-steps", 2, "--max-length=24", *FLAGS, *MACHINE]
    code = run([*map(str, given), "--out", str(tmp_path / "run"), "--json"])
    out, err = capsys.readouterr()
    assert code == 0
    assert json.loads(out)["steps"] == 2
    assert "unigram entropy" in err
    quiet = run([*map(str, given), "--out", str(tmp_path / "quiet"), "--quiet"])
    assert (quiet, *capsys.readouterr()) == (0, "", "")
    assert "not empty" in call_wrong(capsys, *given, "--out", tmp_path / "run")
    assert call_json(capsys, *given, "--out", tmp_path / "run", "--resume")["steps"] == 2
    result = json.loads((tmp_path / "run" / "result.json").read_text())
    run([*map(str, given), "--out", str(tmp_path / "run"), "--resume"])
    size = f"on {counted(result['held_out_documents'], 'document')}, {result['held_out_tokens']:,} tokens (perplexity"
    assert size in " ".join(capsys.readouterr().err.split())


def test_flags_accept_dashes_and_underscores(capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path) -> None:
    for number, flag in enumerate(("--learning_rate", "--learning-rate")):
        out = tmp_path / str(number)
        call(capsys, "pretrain", shared / "corpus.txt", "--out", out, "--max-steps=1", "--max-length=24", flag, "0.007",
             *FLAGS, *MACHINE)  # fmt: skip
        assert "learning_rate = 0.007" in (out / "recipe.toml").read_text()


def test_flags_override_the_recipe(capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path) -> None:
    call(capsys, "pretrain", "--config", shared / "base" / "recipe.toml", "--out", tmp_path / "run", "--max-steps", "2")
    recipe = (tmp_path / "run" / "recipe.toml").read_text()
    assert "max_steps = 2" in recipe
    assert "hidden_size = 32" in recipe


def test_reading_settings_without_effect_are_refused(
    capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path
) -> None:
    call(capsys, "store", shared / "corpus.txt", "--tokenizer", shared / "base", "--out", tmp_path / "store")
    rest = ("--out", tmp_path / "run", "--max-steps=1", *FLAGS, *MACHINE)
    said = call_wrong(capsys, "pretrain", tmp_path / "store", "--documents", "file", *rest)
    assert "--documents cannot be set" in said
    said = call_wrong(capsys, "pretrain", shared / "corpus.txt", "--text-column", "body", *rest)
    assert "--text-column is 'body', but no file of the corpus has columns" in said
    assert not (tmp_path / "run").exists()


def test_two_limits_are_refused(capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path) -> None:
    limits = ("--max-steps=700", "--max-minutes=0.03")
    said = call_wrong(capsys, "pretrain", shared / "corpus.txt", "--out", tmp_path / "run", *limits, *FLAGS, *MACHINE)
    assert "--max-steps and --max-minutes exclude each other" in said
