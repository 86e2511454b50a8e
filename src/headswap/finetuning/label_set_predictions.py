"""The test predictions of a multi-label classifier: which labels each text has, and which were predicted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from headswap.data.records import Example, whole_text
from headswap.finetuning.prediction_file import group_ids, save_arrays, text_ids
from headswap.metrics.multilabel import multilabel_metrics, present_labels

METRICS = ("micro_f1", "macro_f1", "precision", "recall", "exact_match")


@dataclass(frozen=True)
class LabelSetPredictions:
    """Predicted and true labels (texts x labels, true where a text has the label), label names, and one id per text."""

    kind: ClassVar[str] = "label sets"
    has_classes: ClassVar[bool] = False
    has_scores: ClassVar[bool] = False
    part_noun: ClassVar[str] = "label"
    """What one class of `counts` is."""
    predicted: np.ndarray
    targets: np.ndarray
    labels: tuple[str, ...]
    text_ids: np.ndarray
    group_ids: np.ndarray | None = None

    @property
    def counts(self) -> np.ndarray:
        """Texts x labels x (correct, predicted, true), from which F1 is computed."""
        return np.stack([self.predicted & self.targets, self.predicted, self.targets], axis=2).astype(np.int64)

    def take(self, rows: np.ndarray) -> "LabelSetPredictions":
        """The predictions for some of the texts."""
        groups = None if self.group_ids is None else self.group_ids[rows]
        return replace(
            self, predicted=self.predicted[rows], targets=self.targets[rows], text_ids=self.text_ids[rows],
            group_ids=groups,
        )  # fmt: skip

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the second axis of `counts`."""
        return self.labels

    @property
    def test_key(self) -> tuple[Any, ...]:
        """What runs must share to be compared: label names, texts in their order, true labels."""
        return self.kind, self.labels, self.text_ids.tobytes(), np.packbits(self.targets).tobytes()

    def scores(self) -> dict[str, float]:
        """Micro- and macro-F1, precision, recall and the share of texts with all labels right."""
        found = multilabel_metrics(self.targets, self.predicted, self.labels)
        return {name: found[name] for name in METRICS}

    @classmethod
    def of(cls, outputs: np.ndarray, examples: Sequence[Example], labels: Sequence[str]) -> "LabelSetPredictions":
        """The predicted labels (texts x labels) of the examples of a test set."""
        targets = present_labels([example.labels for example in examples], labels)
        ids = text_ids([whole_text(example) for example in examples])
        return cls(np.asarray(outputs, dtype=bool), targets, tuple(labels), ids, group_ids(examples))

    @classmethod
    def of_model(
        cls, answers: Sequence[Any], examples: Sequence[Example], labels: Sequence[str]
    ) -> "LabelSetPredictions":
        """The labels that a model predicts for the examples of a test set."""
        return cls.of(present_labels([answer.labels for answer in answers], labels), examples, labels)

    def save(self, folder: Path) -> None:
        """Write `predictions.npz` into a run folder."""
        save_arrays(
            folder, self.kind, predicted=self.predicted, targets=self.targets,
            labels=np.array(self.labels, dtype=np.str_), text_ids=self.text_ids, group_ids=self.group_ids,
        )  # fmt: skip

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "LabelSetPredictions":
        """The predictions of the arrays of a file."""
        labels = tuple(str(label) for label in arrays["labels"])
        groups = arrays.get("group_ids")
        return cls(arrays["predicted"], arrays["targets"], labels, arrays["text_ids"], groups)

    def check(self) -> None:
        """Raise a ValueError if the arrays do not belong together: one row per text, one column per label."""
        shape = (len(self.text_ids), len(self.labels))
        if not all(shape) or any(array.shape != shape for array in (self.predicted, self.targets)):
            raise ValueError(
                f"the arrays have the shapes {self.predicted.shape} and {self.targets.shape} for {shape[0]} texts and "
                f"{shape[1]} labels"
            )
        if self.group_ids is not None and self.group_ids.shape != shape[:1]:
            raise ValueError(f"group_ids have the shape {self.group_ids.shape} for {shape[0]} texts")
        if any(array.dtype != np.bool_ for array in (self.predicted, self.targets)):
            raise ValueError("predicted and targets must be true or false")
