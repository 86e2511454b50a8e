"""The test predictions of a tagger: the true and the predicted tag of every word, sentence by sentence."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from headswap.data.records import TaggedExample
from headswap.data.tagged import OUTSIDE, PREFIXES
from headswap.finetuning.prediction_file import save_arrays, text_ids
from headswap.metrics.entities import are_plain, count_sentence, tagging_metrics
from headswap.tasks.predictions import numbered

METRICS = ("f1", "precision", "recall", "macro_f1", "accuracy")


@dataclass(frozen=True)
class TagPredictions:
    """Numbers of predicted and true tags of all words, the number of words per sentence, and the names of the tags."""

    kind: ClassVar[str] = "tags"
    has_classes: ClassVar[bool] = False
    has_scores: ClassVar[bool] = False
    part_noun: ClassVar[str] = "type"
    group_ids: ClassVar[None] = None
    predicted: np.ndarray
    targets: np.ndarray
    lengths: np.ndarray
    labels: tuple[str, ...]
    """The tags of train, then those that only the test set has."""
    text_ids: np.ndarray

    @property
    def is_plain(self) -> bool:
        """Whether the tags are no entities, so that each word counts as one."""
        return are_plain(self.labels)

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The types of entities, or the tags if they are no entities."""
        if self.is_plain:
            return self.labels
        return tuple(sorted({label[2:] for label in self.labels if label.startswith(PREFIXES)}))

    @cached_property
    def counts(self) -> np.ndarray:
        """Sentences x types x (correct, predicted, true), from which F1 is computed."""
        numbers, is_plain = numbered(self.classes), self.is_plain
        found = np.zeros((len(self.lengths), len(numbers), 3), dtype=np.int64)
        for row, (truth, predicted) in enumerate(zip(*self.sentences(), strict=True)):
            for kind, counts in count_sentence(truth, predicted, is_plain=is_plain).items():
                found[row, numbers[kind]] = counts
        return found

    def sentences(self) -> tuple[list[list[str]], list[list[str]]]:
        """The true and the predicted tags of every sentence."""
        ends = np.cumsum(self.lengths)[:-1]
        found = []
        for tags in (self.targets, self.predicted):
            parts = np.split(tags, ends)
            found.append([[self.labels[number] for number in part.tolist()] for part in parts])
        return found[0], found[1]

    @property
    def test_key(self) -> tuple[Any, ...]:
        """What runs must share to be compared: tags, sentences in their order, true tags.

        A run has the tag O in addition if its model predicts it for words without any token.
        """
        labels = tuple(label for label in self.labels if label != OUTSIDE)
        truth = "\x1f".join(self.labels[number] for number in self.targets.tolist())
        return self.kind, labels, self.text_ids.tobytes(), truth

    def scores(self) -> dict[str, float]:
        """Precision, recall and F1 of entities, the mean F1 of the types, and the share of words with the right tag."""
        found = tagging_metrics(*self.sentences(), self.labels)
        return {name: found[name] for name in METRICS}

    def take(self, rows: np.ndarray) -> "TagPredictions":
        """The predictions for some of the sentences (true where a sentence is taken)."""
        words = np.repeat(rows, self.lengths)
        return replace(
            self, predicted=self.predicted[words], targets=self.targets[words], lengths=self.lengths[rows],
            text_ids=self.text_ids[rows],
        )  # fmt: skip

    @classmethod
    def of(
        cls, outputs: Sequence[Sequence[str]], examples: Sequence[TaggedExample], labels: Sequence[str]
    ) -> "TagPredictions":
        """The predicted tags of the sentences of a test set."""
        unseen = {tag for example in examples for tag in example.tags} - set(labels)
        names = (*labels, *sorted(unseen))
        if OUTSIDE not in names and any(OUTSIDE in tags for tags in outputs):
            names = (*names, OUTSIDE)  # of words without any token; last, so that all runs have the same numbers
        numbers = numbered(names)
        return cls(
            np.array([numbers[tag] for tags in outputs for tag in tags], dtype=np.int32),
            np.array([numbers[tag] for example in examples for tag in example.tags], dtype=np.int32),
            np.array([len(example.tokens) for example in examples], dtype=np.int32),
            names,
            text_ids([example.text for example in examples]),
        )

    @classmethod
    def of_model(
        cls, answers: Sequence[Any], examples: Sequence[TaggedExample], labels: Sequence[str]
    ) -> "TagPredictions":
        """The tags that a model predicts for the sentences of a test set."""
        return cls.of([answer.tags for answer in answers], examples, labels)

    def save(self, folder: Path) -> None:
        """Write `predictions.npz` into a run folder."""
        save_arrays(
            folder, self.kind, predicted=self.predicted, targets=self.targets, lengths=self.lengths,
            labels=np.array(self.labels, dtype=np.str_), text_ids=self.text_ids,
        )  # fmt: skip

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "TagPredictions":
        """The predictions of the arrays of a file."""
        labels = tuple(str(label) for label in arrays["labels"])
        return cls(arrays["predicted"], arrays["targets"], arrays["lengths"], labels, arrays["text_ids"])

    def check(self) -> None:
        """Raise a ValueError if the arrays do not belong together: one tag per word, one length per sentence."""
        if not len(self.text_ids) or self.lengths.shape != self.text_ids.shape or (self.lengths < 1).any():
            raise ValueError(f"there are {len(self.lengths)} lengths for {len(self.text_ids)} sentences")
        shape = (int(self.lengths.sum()),)
        for name, tags in (("predicted", self.predicted), ("targets", self.targets)):
            if tags.shape != shape:
                raise ValueError(f"{name} has the shape {tags.shape} for {shape[0]} words")
            if tags.dtype.kind not in "iu" or not ((tags >= 0) & (tags < len(self.labels))).all():
                raise ValueError(f"{name} must be numbers of the {len(self.labels)} tags")
