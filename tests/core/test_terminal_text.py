"""Text for a terminal: no control character is left, and other characters stay as they are."""

import json

import pytest

from headswap.core.errors import listed
from headswap.core.terminal_text import json_escaped, one_line, visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred\x1b[0m", r"\x1b[31mred\x1b[0m"),
        ("\x9b2J", r"\x9b2J"),
        ("bell\a back\b null\0 del\x7f", r"bell\x07 back\x08 null\x00 del\x7f"),
        ("over\rwritten", r"over\rwritten"),
        ("abc\u202etxt.exe", r"abc\u202etxt.exe"),
        ("line\u2028separator", r"line\u2028separator"),
        ("lone \udc9b", r"lone \udc9b"),
        ("é ▁ 日本 \u200d \\ [bold] %s", "é ▁ 日本 \u200d \\ [bold] %s"),
    ],
)
def test_control_characters_become_escapes(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert one_line(text) == shown


def test_line_breaks_and_tabs_are_kept_in_messages_and_escaped_in_cells() -> None:
    assert visible("a\nb\tc") == "a\nb\tc"
    assert one_line("a\nb\tc") == r"a\nb\tc"


def test_names_in_a_sentence_stay_on_its_line() -> None:
    assert listed(["a\nheadswap: done", "\x1b]0;x\a"]) == r"'a\nheadswap: done', '\x1b]0;x\x07'"


def test_json_stays_exact() -> None:
    text = "\x1b\x9b\u202e\n é"
    written = json_escaped(json.dumps(text, ensure_ascii=False))
    assert written == '"\\u001b\\u009b\\u202e\\n é"'
    assert json.loads(written) == text
