"""Names and texts of the user in documents: Markdown without HTML and links, CSV cells without formulas.

Reports and cards are opened by other programs. A label or file name must not become a tag, an image, a link or the
formula of a spreadsheet there. JSON files have every text as it is.
"""

from headswap.core.terminal_text import one_line

HTML = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
MARKDOWN = {"[": "\\[", "]": "\\]", "`": "\\`", "|": "\\|"}
FORMULA = ("=", "+", "-", "@", "\t", "\r")


def markdown(text: object) -> str:
    """A text inside of a Markdown line: HTML as entities, links, code and table cells escaped, on one line."""
    plain = one_line(" ".join(str(text).split()))
    return "".join(HTML.get(sign) or MARKDOWN.get(sign) or sign for sign in plain)


def markdown_code(text: str) -> str:
    """Lines inside of a fenced code block, which they cannot end."""
    return "\n".join(one_line(line) for line in text.split("\n")).replace("```", "` ` `")


def csv_cell(text: str) -> str:
    """A cell of a CSV file; an apostrophe before =, +, - or @ keeps a spreadsheet from reading a formula."""
    return f"'{text}" if text.startswith(FORMULA) else text
