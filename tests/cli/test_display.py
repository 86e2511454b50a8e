"""Tables on a terminal: the first column is never wrapped; names of models; what a study prints."""

import io
import re
from contextlib import redirect_stdout
from typing import Any

import pytest

from headswap.cli.display import model_name, print_table
from headswap.cli.exit_codes import run
from headswap.cli.study_display import print_results
from headswap.study.report.write import make_report
from study_fixture import synthetic_study


class Terminal(io.StringIO):
    """Standard output of a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _eighty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("NO_COLOR", "1")


def shown(*table: Any) -> str:
    """What a terminal shows of a table."""
    with redirect_stdout(Terminal()) as terminal:
        print_table(*table)
    return re.sub(r"\x1b\[\d*m", "", terminal.getvalue())  # bold and italic


def test_table_that_fits_is_drawn() -> None:
    said = shown("Scores", ("model", "accuracy"), [("a model of [some] name", "0.912")])
    assert "┃ model" in said
    assert "a model of [some] name" in said


def test_first_column_is_not_wrapped() -> None:
    name = "box:a-rather-long-name-of-a-base"
    said = shown("Bases", ("name", "what", "more"), [(name, "many words " * 8, "some more words " * 8)])
    assert "┃" in said
    assert name in said


def test_table_that_is_too_wide_becomes_one_block_per_row() -> None:
    columns = ("name", *(f"what{number}" for number in range(12)))
    rows = [(f"box:{letter}-{'x' * 20}", *["something", "", *["[b]word" * 2] * 9, "/a/path" * 30]) for letter in "ab"]
    lines = [line.rstrip() for line in shown("Bases", columns, rows).splitlines()]
    assert lines[:3] == ["Bases", f"box:a-{'x' * 20}", "  what0   something"]
    assert lines.count(f"box:b-{'x' * 20}") == 1
    assert not any("what1 " in line for line in lines), "empty cells are left out"
    assert all(len(line) <= 80 for line in lines)
    assert "".join("".join(lines).split()).count("/a/path" * 30) == 2, "nothing is cut"


def test_names_of_data_sets_are_not_shortened() -> None:
    with redirect_stdout(Terminal()) as terminal:
        assert run(["datasets"]) == 0
    said = terminal.getvalue()
    assert "movies:rotten-tomatoes" in said
    assert "chitchat" in said
    assert "…" not in said


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("/a/runs/base", "base"), ("/a/runs/base/bundle", "base"), ("runs/base/", "base"), ("bundle", "bundle"),
        ("box:reviews-en", "box:reviews-en"), ("scratch", "scratch"),
    ],
)  # fmt: skip
def test_model_is_shown_by_its_name(given: str, shown: str) -> None:
    assert model_name(given) == shown


def test_the_table_of_a_study_counts_pairs_and_prints_names_without_markdown_escapes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cells = {(arm, labels): [0.7, 0.71, 0.72] for arm in ("scratch", "own[1]") for labels in (100, 1_000)}
    print_results(make_report(synthetic_study(cells, unit="pair")).as_json(), out=None)
    printed = capsys.readouterr().out
    assert printed.startswith("arm\t100 pairs\t1,000 pairs\t")
    assert "own[1]\t0.710" in printed
    assert "between the arm 'own[1]' and scratch on average over 100 and 1,000 labelled pairs" in printed
    assert "\\" not in printed
