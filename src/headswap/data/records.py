"""Records: a document of a corpus, and the examples of labelled sets.

Each record has its file and line, for error messages. Each example has a `text` and a `label` as strings, by which sets
are compared; its other fields depend on the task. Records are created by documents.py, labelled.py, tagged.py,
questions.py and named_sets.py.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

PAIR_SEPARATOR = "\x1d"
"""Between the two texts of a pair where they are compared or hashed as one string."""


class Labelled(Protocol):
    """The fields that every example has."""

    @property
    def text(self) -> str:
        """The whole input as one string (of a pair, the first text)."""

    @property
    def label(self) -> str:
        """The whole target as one string."""

    @property
    def source(self) -> str:
        """File or named data set."""

    @property
    def line(self) -> int:
        """First line (or row) in the source, counted from 1."""


@dataclass(frozen=True, slots=True)
class Document:
    """One unlabelled text of a corpus."""

    text: str
    source: str
    """File or named data set."""
    line: int
    """First line (or row) in the source, counted from 1."""


@dataclass(frozen=True, slots=True)
class Example:
    """One text, or a pair of texts, with its label."""

    text: str
    label: str
    """The label; for multilabel all labels in one string, for regress the number as a string."""
    source: str
    """File or named data set."""
    line: int
    """First line (or row) in the source, counted from 1."""
    text_pair: str | None = None
    """The second text of a pair."""
    labels: tuple[str, ...] = ()
    """The labels of a multi-label text, sorted; may be empty."""
    value: float = 0.0
    """The target of a regression."""
    group: str | None = None
    """The author, patient or thread of the text, where a group column is read."""


@dataclass(frozen=True, slots=True)
class TaggedExample:
    """The words of a sentence and one tag per word."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    source: str
    line: int

    @property
    def text(self) -> str:
        """The words, separated by spaces."""
        return " ".join(self.tokens)

    @property
    def label(self) -> str:
        """The tags, separated by spaces."""
        return " ".join(self.tags)


@dataclass(frozen=True, slots=True)
class Answer:
    """A part of a context and the position of its first character."""

    text: str
    start: int


@dataclass(frozen=True, slots=True)
class SpanExample:
    """A question, its context, and the correct answers; an unanswerable question has none."""

    question: str
    context: str
    answers: tuple[Answer, ...]
    source: str
    line: int

    @property
    def text(self) -> str:
        """The question and the context, separated by a line end."""
        return f"{self.question}\n{self.context}"

    @property
    def label(self) -> str:
        """The answers, one per line."""
        return "\n".join(f"{answer.start} {answer.text}" for answer in self.answers)


def whole_text(example: Labelled, *, separator: str = PAIR_SEPARATOR) -> str:
    """The text of an example; for a pair, both texts with `separator` between them."""
    second = getattr(example, "text_pair", None)
    return example.text if second is None else f"{example.text}{separator}{second}"


def texts_of(example: Labelled) -> tuple[str, ...]:
    """The single texts of an example: one, both of a pair, or the context and the question."""
    if isinstance(example, SpanExample):
        return example.context, example.question
    second = getattr(example, "text_pair", None)
    return (example.text,) if second is None else (example.text, second)


def unit_of(examples: Sequence[Labelled]) -> str:
    """What one of these examples is called in messages: text, pair, sentence or question."""
    first = examples[0] if examples else None
    if isinstance(first, SpanExample):
        return "question"
    if isinstance(first, TaggedExample):
        return "sentence"
    return "text" if getattr(first, "text_pair", None) is None else "pair"


def pair_as_text(example: Any, *, separator: str = PAIR_SEPARATOR) -> Any:
    """The example with both texts of a pair joined in `text`, for models that read one text; others as they are."""
    if getattr(example, "text_pair", None) is None:
        return example
    return replace(example, text=whole_text(example, separator=separator), text_pair=None)
