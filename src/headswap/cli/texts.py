"""Where the texts of `predict` and its like come from: arguments, a file, or standard input."""

import sys
from collections.abc import Sequence

from headswap.core.errors import InputError, SettingError


def texts_to_read(given: Sequence[str], file: str | None, text_column: str) -> list[str]:
    """The texts in their order; blank ones in a file are an error, since answers come in input order."""
    if given and file is not None:
        raise SettingError("Texts and --file are both given. Give one of them.")
    if "-" in given:
        if len(given) > 1:
            raise SettingError("- is standard input and cannot be mixed with texts. Give one of them.")
        given, file = (), "-"
    if given:
        return list(given)
    if file is None and sys.stdin.isatty():
        raise SettingError("No text is given. Pass texts, --file F, or pipe one text a line.")
    if file in (None, "-"):
        texts, name = [line.rstrip("\r\n") for line in sys.stdin], "Standard input"
    else:
        assert file is not None
        texts, name = _texts_of_file(file, text_column), file
    blank = [number for number, text in enumerate(texts, 1) if not text.strip()]
    if blank or not texts:
        where = f" at line {blank[0]}" if blank else ""
        raise InputError(f"{name} has no text{where}. Every line must hold a text, since answers come in input order.")
    return texts


def _texts_of_file(file: str, text_column: str) -> list[str]:
    """Every line or row of a file, blank ones too."""
    from headswap.text.columns import COLUMN_EXTENSIONS, Problems, read_rows, text_problem
    from headswap.text.documents import find_files
    from headswap.text.open_text import extension_of, read_lines

    files = find_files([file])
    if len(files) != 1:
        raise InputError(f"{file} stands for {len(files)} files. Give one, so that answers can be told apart.")
    (path,) = files
    if extension_of(path) not in COLUMN_EXTENSIONS:
        return list(read_lines(path))
    problems, texts = Problems(), []
    for line, (value,) in read_rows(path, {"text_column": text_column}, problems):
        if problem := text_problem(value):
            problems.add(f"{path}, line {line}: {problem}.")
        texts.append(value if isinstance(value, str) else "")
    problems.raise_found()
    return texts
