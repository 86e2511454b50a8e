"""Tables on a terminal: what one types next is never cut."""

import io
import re
from contextlib import redirect_stdout
from typing import Any

import pytest

from headswap.cli.app import run
from headswap.cli.display import print_table


class Terminal(io.StringIO):
    """Standard output that says it is a terminal."""

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


def test_a_table_that_fits_is_drawn() -> None:
    said = shown("Scores", ("model", "accuracy"), [("a model of [some] name", "0.912")])
    assert "┃ model" in said
    assert "a model of [some] name" in said


def test_the_first_column_is_not_cut_where_others_can_give_way() -> None:
    name = "box:a-rather-long-name-of-a-base"
    said = shown("Bases", ("name", "what", "more"), [(name, "many words " * 8, "some more words " * 8)])
    assert "┃" in said
    assert name in said


def test_a_table_too_wide_for_the_terminal_becomes_a_block_a_row() -> None:
    columns = ("name", *(f"what{number}" for number in range(12)))
    rows = [(f"box:{letter}-{'x' * 20}", *["something", "", *["[b]word" * 2] * 9, "/a/path" * 30]) for letter in "ab"]
    lines = [line.rstrip() for line in shown("Bases", columns, rows).splitlines()]
    assert lines[:3] == ["Bases", f"box:a-{'x' * 20}", "  what0   something"]
    assert lines.count(f"box:b-{'x' * 20}") == 1
    assert not any("what1 " in line for line in lines), "an empty cell says nothing"
    assert all(len(line) <= 80 for line in lines)
    assert "".join("".join(lines).split()).count("/a/path" * 30) == 2, "nothing is cut"


def test_named_data_sets_are_listed_with_their_whole_names() -> None:
    with redirect_stdout(Terminal()) as terminal:
        assert run(["datasets"]) == 0
    said = terminal.getvalue()
    assert "movies:rotten-tomatoes" in said
    assert "chitchat" in said
    assert "…" not in said
