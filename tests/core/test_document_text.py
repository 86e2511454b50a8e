"""Names and texts of the user in Markdown and CSV files."""

import pytest

from headswap.core.document_text import csv_cell, markdown, markdown_code


def test_html_links_and_line_breaks_are_text_in_markdown() -> None:
    assert markdown("<img src=x onerror=alert(1)> & co") == "&lt;img src=x onerror=alert(1)&gt; &amp; co"
    assert markdown("![](http://example.org/p.png)") == r"!\[\](http://example.org/p.png)"
    assert markdown("a\n# title | `b` \x1b[0m") == r"a # title \| \`b\` \x1b\[0m"


def test_code_cannot_end_its_block() -> None:
    assert markdown_code("one\n```\n<b>") == "one\n` ` `\n<b>"


@pytest.mark.parametrize("text", ["=HYPERLINK(1)", "+1", "-1", "@SUM(A1)", "\t=1"])
def test_a_formula_is_a_text_in_a_cell(text: str) -> None:
    assert csv_cell(text) == f"'{text}"


def test_other_cells_are_not_changed() -> None:
    assert csv_cell("scratch") == "scratch"
