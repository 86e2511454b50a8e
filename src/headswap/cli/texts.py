"""Where the inputs of `predict`, `embed`, `generate` and `fill` come from: arguments, a file, or standard input."""

import logging
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from headswap.bundle.task_state import TaskState
from headswap.core.errors import InputError, SettingError
from headswap.data.columns import COLUMN_EXTENSIONS
from headswap.data.documents import stream_texts
from headswap.data.open_text import decode_lines, extension_of, pieces_of
from headswap.tasks.choose import named_task
from headswap.tasks.inputs import InputColumns, InputForm

log = logging.getLogger("headswap")


def inputs_to_read(
    state: TaskState, given: Sequence[str], file: str | None, columns: InputColumns, second: Mapping[str, str | None]
) -> Iterable[Any]:
    """The inputs of a model, as its task reads them: texts, pairs, sentences or (question, context).

    Texts are checked first and then read again one by one, so that a file of any size can be classified.
    """
    form = named_task(state.task).input_form(state)
    needed = form.second
    _refuse_unread(
        form, columns, {name: value for name, value in second.items() if needed is None or name != needed.flag}
    )
    if needed is None:
        if form.read_file is not None and file not in (None, "-") and not given and columns.text_column is None:
            inputs = form.read_file(str(file), columns)
            if inputs is not None:
                return inputs
        return stream_to_read(given, file, columns.text_column)
    other = second[needed.flag]
    if file is not None:
        if given or other is not None:
            raise SettingError(f"Texts or --{needed.flag}, and --file are both given. Give one of them.")
        return needed.read_file(file, columns)
    if not given or other is None:
        raise SettingError(
            f"This model reads {needed.what}. Pass TEXT and --{needed.flag}, or --file with both columns."
        )
    if "-" in given:
        raise SettingError(f"- is standard input, which has no {needed.flag}. Pass --file with both columns.")
    if named := [name for name in form.columns if getattr(columns, name) is not None]:
        raise SettingError(
            f"--{named[0].replace('_', '-')} is for a file with columns. Pass --file F, or leave it out."
        )
    return [needed.join(text, other) for text in given]


def texts_to_read(given: Sequence[str], file: str | None, text_column: str | None) -> list[str]:
    """The texts in input order; a blank text in a file is an error, since there is one output per line."""
    return list(stream_to_read(given, file, text_column))


def stream_to_read(given: Sequence[str], file: str | None, text_column: str | None) -> Iterable[str]:
    """The same texts one by one; all of them are checked before the first is returned."""
    if given and file is not None:
        raise SettingError("Texts and --file are both given. Give one of them.")
    if "-" in given:
        if len(given) > 1:
            raise SettingError("- is standard input and cannot be mixed with texts. Give one of them.")
        given, file = (), "-"
    if text_column is not None and (given or file in (None, "-")):
        raise SettingError("--text-column is for a file with columns. Pass --file F, or leave it out.")
    if given:
        for text in given:
            if os.path.isfile(text):  # False for texts that cannot be a path
                log.warning("%s is a file, but was read as a text. Pass --file %s to read its texts.", text, text)
        return list(given)
    if file is None and sys.stdin.isatty():
        raise SettingError("No text is given. Pass texts, --file F, or pipe one text per line.")
    if file is None or file == "-":
        return _checked(_standard_input(), "Standard input", is_plain=True)
    is_plain = extension_of(Path(file)) not in COLUMN_EXTENSIONS
    return _checked(partial(stream_texts, file, text_column=text_column), file, is_plain=is_plain)


def _checked(read: Callable[[], Iterator[str]], name: str, *, is_plain: bool) -> Iterator[str]:
    """The texts of a source that can be read twice; blank lines at the end of a plain file are no texts."""
    count = last_filled = 0
    first_blank = None
    for count, text in enumerate(read(), 1):
        if text.strip():
            last_filled = count
        elif first_blank is None:
            first_blank = count
    num_texts = last_filled if is_plain else count
    is_blank = first_blank is not None and first_blank <= num_texts
    if is_blank or not num_texts:
        noun = "line" if is_plain else "row"
        where = f" in {noun} {first_blank}{'' if is_plain else ' (a header is not counted)'}" if is_blank else ""
        raise InputError(
            f"{name} has no text{where}. Remove blank {noun}s, or fill them: the output has one line per {noun}."
        )
    return islice(read(), num_texts)


def _standard_input() -> Callable[[], Iterator[str]]:
    """A function that returns the lines of standard input, from a copy on the disk; bytes that are not UTF-8 are an
    error that names the line."""
    if not hasattr(sys.stdin, "buffer"):  # replaced by a text stream
        lines = [line.rstrip("\r\n") for line in sys.stdin]
        return lambda: iter(lines)
    copy = tempfile.TemporaryFile()  # noqa: SIM115 - closed when its last reader is dropped
    shutil.copyfileobj(sys.stdin.buffer, copy)

    def read() -> Iterator[str]:
        copy.seek(0)
        return decode_lines(pieces_of(copy), name="Standard input")

    return read


def _refuse_unread(form: InputForm, columns: InputColumns, second: Mapping[str, str | None]) -> None:
    """Refuse flags that would have no effect on this model."""
    unread = [name for name, value in columns._asdict().items() if value is not None and name not in form.columns]
    unread += [name for name, value in second.items() if value is not None]
    if unread:
        flags = " and ".join(f"--{name.replace('_', '-')}" for name in unread)
        raise SettingError(f"{flags} cannot be used: this model does not read it.")
