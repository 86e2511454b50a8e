"""Where the texts of `predict` and its like come from: arguments, a file, or standard input."""

import sys
from collections.abc import Sequence

from headswap.core.errors import InputError, SettingError
from headswap.text.documents import read_texts
from headswap.text.open_text import decode_lines, pieces_of


def texts_to_read(given: Sequence[str], file: str | None, text_column: str | None) -> list[str]:
    """The texts in their order; blank ones in a file are an error, since answers come in input order."""
    if given and file is not None:
        raise SettingError("Texts and --file are both given. Give one of them.")
    if "-" in given:
        if len(given) > 1:
            raise SettingError("- is standard input and cannot be mixed with texts. Give one of them.")
        given, file = (), "-"
    if text_column is not None and (given or file in (None, "-")):
        raise SettingError("--text-column is for a file with columns. Pass --file F, or leave it out.")
    if given:
        return list(given)
    if file is None and sys.stdin.isatty():
        raise SettingError("No text is given. Pass texts, --file F, or pipe one text a line.")
    if file is None or file == "-":
        texts, name = _standard_input(), "Standard input"
    else:
        texts, name = read_texts(file, text_column=text_column), file
    blank = [number for number, text in enumerate(texts, 1) if not text.strip()]
    if blank or not texts:
        where = f" at line {blank[0]}" if blank else ""
        raise InputError(f"{name} has no text{where}. Every line must hold a text, since answers come in input order.")
    return texts


def _standard_input() -> list[str]:
    """The lines of standard input; bytes that are not UTF-8 are an error with their line."""
    if not hasattr(sys.stdin, "buffer"):  # replaced by something that holds text already
        return [line.rstrip("\r\n") for line in sys.stdin]
    return list(decode_lines(pieces_of(sys.stdin.buffer), name="Standard input"))
