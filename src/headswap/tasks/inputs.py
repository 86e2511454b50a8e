"""What `headswap predict` reads for a task: columns of a file, a second flag, and how a file becomes inputs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple


class InputColumns(NamedTuple):
    """Names of columns in a file of inputs; None where no name was given."""

    text_column: str | None = None
    text_pair_column: str | None = None
    tokens_column: str | None = None
    question_column: str | None = None
    context_column: str | None = None


@dataclass(frozen=True)
class SecondInput:
    """The second part of inputs that have two: the second text of a pair, or the question about a context."""

    flag: str
    """The flag that gives it, without dashes."""
    what: str
    """What the model reads, for messages."""
    join: Callable[[str, str], tuple[str, str]]
    """The input that is made from TEXT and the value of the flag."""
    read_file: Callable[[str, InputColumns], list[tuple[str, str]]]
    """Reads a file that has both parts in columns."""


@dataclass(frozen=True)
class InputForm:
    """How the inputs of a task are given on the command line."""

    columns: tuple[str, ...]
    """The fields of `InputColumns` that are read."""
    read_file: Callable[[str, InputColumns], list[Any] | None] | None = None
    """Reads a file of inputs. Without it, or where it returns None, the file holds one text per line or row."""
    second: SecondInput | None = None


TEXTS = InputForm(columns=("text_column",))
