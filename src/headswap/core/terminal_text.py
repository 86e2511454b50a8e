"""Text for a terminal: control characters become visible escapes, so that no text can move the cursor.

Labels, texts, file names and messages of other libraries may contain anything. Everything that is printed for people
goes through `visible` (messages, which may have several lines) or `one_line` (answers and cells of tables). JSON is
exact: `json_escaped` changes only how a character is written.
"""

import re

BIDIRECTIONAL = "\u202a-\u202e\u2066-\u2069"
"""Overrides and embeddings of the writing direction: they make a text look like another one."""
CONTROL = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029{BIDIRECTIONAL}\ud800-\udfff]")
BREAKS = {"\n": "\\n", "\t": "\\t"}


def visible(text: object) -> str:
    """The text with control characters as escapes, such as \\x1b; line breaks and tabs are kept."""
    return CONTROL.sub(_escape, str(text))


def one_line(text: object) -> str:
    """The text on one line and in one cell: line breaks and tabs are escaped too."""
    shown = visible(text)
    for sign, escape in BREAKS.items():
        shown = shown.replace(sign, escape)
    return shown


def json_escaped(written: str) -> str:
    """JSON with the control characters that `json.dumps` leaves in its strings, such as U+009B, as \\u escapes."""
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", written)


def _escape(found: re.Match[str]) -> str:
    number = ord(found[0])
    if found[0] == "\r":
        return "\\r"
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"
