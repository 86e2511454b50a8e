"""The records that readers hand on: a document of a corpus, and the examples of labelled sets.

All remember where they were found, so that whoever meets a problem later can still name the file and the line. Every
example has a `text` and a `label` as strings, by which sets are compared; what else it has is its task's. How they are
read is left to documents.py, labelled.py, tagged.py, questions.py and datasets.py.
"""

from dataclasses import dataclass, replace
from typing import Protocol

PAIR_SEPARATOR = "\x1d"
"""Between the two texts of a pair where they are compared or hashed as one string."""


class Labelled(Protocol):
    """What every example has."""

    @property
    def text(self) -> str:
        """All that is read."""

    @property
    def label(self) -> str:
        """All that is to be predicted."""

    @property
    def source(self) -> str:
        """The file or named data set it comes from."""

    @property
    def line(self) -> int:
        """The line (or row) of the source on which it begins, counted from 1."""


@dataclass(frozen=True, slots=True)
class Document:
    """One unlabelled text of a corpus."""

    text: str
    source: str
    """The file or named data set it comes from."""
    line: int
    """The line (or row) of the source on which it begins, counted from 1."""


@dataclass(frozen=True, slots=True)
class Example:
    """One text, or a pair of texts, with its label."""

    text: str
    label: str
    """The label; of a multi-label text all of them in one string, of a regression its number."""
    source: str
    """The file or named data set it comes from."""
    line: int
    """The line (or row) of the source on which it begins, counted from 1."""
    text_pair: str | None = None
    """The second text, where inputs are pairs."""
    labels: tuple[str, ...] = ()
    """The labels of a multi-label text, sorted; it may have none."""
    value: float = 0.0
    """The number of a regression."""


@dataclass(frozen=True, slots=True)
class TaggedExample:
    """The words of a sentence and a tag for each."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    source: str
    line: int

    @property
    def text(self) -> str:
        """The words with blanks between them."""
        return " ".join(self.tokens)

    @property
    def label(self) -> str:
        """The tags with blanks between them."""
        return " ".join(self.tags)


@dataclass(frozen=True, slots=True)
class Answer:
    """Part of a context, and the character on which it begins."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class SpanExample:
    """A question, the context that holds its answer, and the answers that count as right; none: unanswerable."""

    question: str
    context: str
    answers: tuple[Answer, ...]
    source: str
    line: int

    @property
    def text(self) -> str:
        """The question and its context."""
        return f"{self.question}\n{self.context}"

    @property
    def label(self) -> str:
        """The answers, one a line."""
        return "\n".join(f"{answer.start} {answer.text}" for answer in self.answers)


def whole_text(example: Labelled, *, separator: str = PAIR_SEPARATOR) -> str:
    """The text of an example; for a pair, both texts with `separator` between them."""
    second = getattr(example, "text_pair", None)
    return example.text if second is None else f"{example.text}{separator}{second}"


def pair_as_text(example: Example, *, separator: str = PAIR_SEPARATOR) -> Example:
    """The example with both texts of a pair joined in `text`, for models that read one text."""
    return replace(example, text=whole_text(example, separator=separator))
