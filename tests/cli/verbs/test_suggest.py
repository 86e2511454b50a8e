"""`headswap suggest`."""

import csv
import json
from pathlib import Path

import pytest

from cli_calls import call_wrong
from headswap.cli.exit_codes import run
from tiny import sentences


def test_texts_to_label_are_printed_and_written_as_a_table(
    capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path
) -> None:
    file, out = tmp_path / "texts.txt", tmp_path / "to-label.csv"
    file.write_text("".join(f"{text}\n" for text, _ in sentences(40, seed=9)) + 'with "quotes", and \x1b[2J\n')
    given = ["suggest", str(shared / "classifier"), str(file), "--count", "6"]
    assert run([*given, "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(rows) == 6
    assert all({"row", "text", "uncertainty", "prediction"} == row.keys() for row in rows)
    assert run(given) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [int(line.split("\t")[0]) for line in lines] == [row["row"] for row in rows]
    assert not any("\x1b" in line for line in lines)
    assert run([*given, "--out", str(out)]) == 0
    with out.open(encoding="utf-8", newline="") as opened:
        assert list(csv.reader(opened)) == [["text", "label"], *([row["text"], ""] for row in rows)]


def test_labels_that_were_filled_in_are_never_replaced(
    capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path
) -> None:
    file, out = tmp_path / "texts.txt", tmp_path / "to-label.csv"
    file.write_text("a good film\na bad film\n")
    out.write_text("text,label\na good film,pos\n")
    given = ("suggest", shared / "classifier", file, "--out", out, "--overwrite")
    call_wrong(capsys, *given)
    assert out.read_text() == "text,label\na good film,pos\n"
    assert "must end in .csv" in call_wrong(capsys, *given[:4], tmp_path / "a.txt")


def test_a_wrong_count_is_named_by_its_flag(capsys: pytest.CaptureFixture[str], shared: Path, tmp_path: Path) -> None:
    said = call_wrong(capsys, "suggest", shared / "classifier", tmp_path / "texts.txt", "--count", "0")
    assert said.startswith("headswap: --count 0 is not allowed: it should be greater than or equal to 1.")
