"""The test predictions of a question answerer: where each answer is, and its exact match and F1.

The file has no texts, so the two scores of every question are saved next to the offsets of the answer. Questions about
one context are not independent: if contexts repeat, each context is a group.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from headswap.data.records import SpanExample
from headswap.finetuning.prediction_file import save_arrays, text_ids
from headswap.metrics.squad import exact_match, f1

NO_ANSWER = -1


@dataclass(frozen=True)
class AnswerPredictions:
    """Offsets of the answers in their contexts (-1: no answer), their scores, ids of questions and right answers."""

    kind: ClassVar[str] = "answers"
    has_classes: ClassVar[bool] = False
    has_scores: ClassVar[bool] = False
    labels: ClassVar[tuple[str, ...]] = ()
    starts: np.ndarray
    ends: np.ndarray
    f1: np.ndarray
    exact_match: np.ndarray
    has_answer: np.ndarray
    """Whether each question can be answered."""
    answer_ids: np.ndarray
    """One id per question for its right answers."""
    text_ids: np.ndarray
    group_ids: np.ndarray | None = None

    @property
    def test_key(self) -> tuple[Any, ...]:
        """What runs must share to be compared: questions with contexts in their order, right answers."""
        return self.kind, self.text_ids.tobytes(), self.answer_ids.tobytes()

    def scores(self) -> dict[str, float]:
        """F1 and exact match; if some questions have no answer, also F1 of both parts."""
        found = {"f1": float(self.f1.mean()), "exact_match": float(self.exact_match.mean())}
        if self.has_answer.any() and not self.has_answer.all():
            found["f1_answerable"] = float(self.f1[self.has_answer].mean())
            found["f1_unanswerable"] = float(self.f1[~self.has_answer].mean())
        return found

    def take(self, rows: np.ndarray) -> "AnswerPredictions":
        """The predictions for some of the questions."""
        arrays = {name: array[rows] for name, array in self._arrays().items() if array is not None}
        return replace(self, **arrays)

    @classmethod
    def of(cls, outputs: Sequence[str], examples: Sequence[SpanExample], labels: Sequence[str]) -> "AnswerPredictions":
        """The answers to the questions of a test set, as texts; an offset is that of the first occurrence."""
        del labels
        starts = [
            example.context.find(answer) if answer else NO_ANSWER
            for answer, example in zip(outputs, examples, strict=True)
        ]
        return cls._of(outputs, starts, examples)

    @classmethod
    def of_model(
        cls, answers: Sequence[Any], examples: Sequence[SpanExample], labels: Sequence[str]
    ) -> "AnswerPredictions":
        """The answers of a model to the questions of a test set."""
        del labels
        starts = [NO_ANSWER if answer.start is None else answer.start for answer in answers]
        return cls._of([answer.answer for answer in answers], starts, examples)

    @classmethod
    def _of(cls, answers: Sequence[str], starts: Sequence[int], examples: Sequence[SpanExample]) -> "AnswerPredictions":
        right = [[answer.text for answer in example.answers] for example in examples]
        pairs = list(zip(answers, right, strict=True))
        begin = np.array(starts, dtype=np.int32)
        lengths = np.array([len(answer) for answer in answers], dtype=np.int32)
        contexts = [example.context for example in examples]
        return cls(
            starts=begin,
            ends=np.where(begin == NO_ANSWER, NO_ANSWER, begin + lengths).astype(np.int32),
            f1=np.array([f1(answer, own) for answer, own in pairs]),
            exact_match=np.array([exact_match(answer, own) for answer, own in pairs]),
            has_answer=np.array([bool(own) for own in right]),
            answer_ids=text_ids([example.label for example in examples]),
            text_ids=text_ids([example.text for example in examples]),
            group_ids=text_ids(contexts) if len(set(contexts)) < len(contexts) else None,
        )

    def save(self, folder: Path) -> None:
        """Write `predictions.npz` into a run folder."""
        save_arrays(folder, self.kind, **self._arrays())

    def _arrays(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "AnswerPredictions":
        """The predictions of the arrays of a file."""
        needed = {field.name: arrays[field.name] for field in fields(cls) if field.name != "group_ids"}
        return cls(**needed, group_ids=arrays.get("group_ids"))

    def check(self) -> None:
        """Raise a ValueError if the arrays do not belong together: one value per question, scores from 0 to 1."""
        shapes = {name: array.shape for name, array in self._arrays().items() if array is not None}
        if not len(self.text_ids) or len(set(shapes.values())) > 1:
            raise ValueError(f"the arrays have the shapes {shapes}")
        for name, values in (("f1", self.f1), ("exact_match", self.exact_match)):
            if values.dtype.kind != "f" or not ((values >= 0) & (values <= 1)).all():
                raise ValueError(f"{name} must be numbers from 0 to 1")
        if self.has_answer.dtype != np.bool_:
            raise ValueError("has_answer must be true or false")
