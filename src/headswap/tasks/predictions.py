"""Predictions: what a fine-tuned model predicts for one input. One class per task.

Each has a short form (what `Model.predict` returns), an object for `--json`, and a line for the terminal, in which line
breaks, tabs and control characters of labels and texts are escaped.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from headswap.core.terminal_text import one_line

ABSTAINED = "(abstained)"


def numbered(labels: Sequence[str]) -> dict[str, int]:
    """The number of each label, in the order of `labels`."""
    return {label: number for number, label in enumerate(labels)}


class LabelScores(Mapping[str, float]):
    """The score of every label for one text: a row of an array, read as a mapping from labels to numbers.

    All predictions of a model share `numbers`; a dictionary per text would need a hundred times the memory.
    """

    __slots__ = ("numbers", "row")

    def __init__(self, numbers: Mapping[str, int], row: np.ndarray) -> None:
        self.numbers, self.row = numbers, row

    def __getitem__(self, label: str) -> float:
        return float(self.row[self.numbers[label]])

    def __iter__(self) -> Iterator[str]:
        return iter(self.numbers)

    def __len__(self) -> int:
        return len(self.numbers)

    def __repr__(self) -> str:
        return repr(dict(self))


@dataclass(frozen=True, slots=True)
class LabelPrediction:
    """The label of a text and the score of every label."""

    label: str
    scores: LabelScores
    abstained: bool = False
    """Whether the score of the label is below the limit that was given, so that the text is not answered."""

    @property
    def short(self) -> str | None:
        """The label; None if the text is not answered."""
        return None if self.abstained else self.label

    def as_json(self) -> dict[str, Any]:
        """The object of `predict --json`; the label is null if the text is not answered."""
        if self.abstained:
            return {"label": None, "abstained": True, "scores": dict(self.scores)}
        return {"label": self.label, "scores": dict(self.scores)}

    def as_line(self) -> str:
        """The label, or the mark of a text that is not answered, and the highest score."""
        return f"{ABSTAINED if self.abstained else one_line(self.label)}\t{self.scores[self.label]:.4f}"

    def with_limit(self, below: float) -> "LabelPrediction":
        """The same prediction, not answered if its score is below the limit."""
        return replace(self, abstained=self.scores[self.label] < below)


@dataclass(frozen=True, slots=True)
class LabelsPrediction:
    """The labels whose score reaches their threshold, which may be none, and the score of every label."""

    labels: tuple[str, ...]
    scores: LabelScores

    @property
    def short(self) -> tuple[str, ...]:
        """The labels."""
        return self.labels

    def as_json(self) -> dict[str, Any]:
        """The object of `predict --json`."""
        return {"labels": list(self.labels), "scores": dict(self.scores)}

    def as_line(self) -> str:
        """The labels, and their scores in the same order."""
        names, scores = map(one_line, self.labels), (f"{self.scores[name]:.4f}" for name in self.labels)
        return f"{', '.join(names)}\t{', '.join(scores)}"


@dataclass(frozen=True, slots=True)
class ValuePrediction:
    """A number, in the unit of the training targets."""

    value: float

    @property
    def short(self) -> float:
        """The number."""
        return self.value

    def as_json(self) -> dict[str, Any]:
        """The object of `predict --json`."""
        return {"value": self.value}

    def as_line(self) -> str:
        """The number."""
        return f"{self.value:.6g}"


@dataclass(frozen=True, slots=True)
class Entity:
    """Words `start` up to `end` (not included) that form one entity."""

    type: str
    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class TagsPrediction:
    """The words of a sentence, the tag and the score of each, and the entities."""

    tokens: tuple[str, ...]
    tags: tuple[str, ...]
    scores: tuple[float, ...]
    entities: tuple[Entity, ...]

    @property
    def short(self) -> tuple[str, ...]:
        """The tags."""
        return self.tags

    def as_json(self) -> dict[str, Any]:
        """The object of `predict --json`."""
        return {
            "tokens": list(self.tokens),
            "tags": list(self.tags),
            "scores": list(self.scores),
            "entities": [asdict(entity) for entity in self.entities],
        }

    def as_line(self) -> str:
        """One line per word with its tag, then a blank line, as in a .conll file."""
        pairs = zip(self.tokens, self.tags, strict=True)
        return "".join(f"{one_line(token)}\t{one_line(tag)}\n" for token, tag in pairs)


@dataclass(frozen=True, slots=True)
class SpanPrediction:
    """The answer to a question, its offsets in the context, and its probability; empty if there is no answer."""

    answer: str
    start: int | None
    end: int | None
    score: float

    @property
    def short(self) -> str:
        """The answer's text."""
        return self.answer

    def as_json(self) -> dict[str, Any]:
        """The object of `predict --json`."""
        return asdict(self)

    def as_line(self) -> str:
        """The answer, its offsets in the context, and its score."""
        offsets = f"{self.start}-{self.end}" if self.start is not None else "no answer"
        return f"{one_line(self.answer)}\t{offsets}\t{self.score:.4f}"


Prediction = LabelPrediction | LabelsPrediction | ValuePrediction | TagsPrediction | SpanPrediction
