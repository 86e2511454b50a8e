"""One label a text."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from headswap.batches.labelled_rows import EncodedSet
from headswap.bundle.bundle import Bundle
from headswap.data.config import ColumnSettings
from headswap.data.labelled import check_labels, label_names, one_label
from headswap.data.records import Example
from headswap.metrics.classification import classification_metrics, warn_of_collapse
from headswap.objectives.supervised import ClassificationObjective
from headswap.tasks.config import TaskSettings
from headswap.tasks.predictions import LabelPrediction
from headswap.tasks.text_task import TextTask


class ClassifyTask(TextTask):
    """Softmax over the labels of train. Compare with: multilabel, where a text may have several or none."""

    name = "classify"
    product = "classifier"
    metrics = ("accuracy", "macro_f1", "loss")
    shown = ("accuracy", "macro_f1")
    settings = ("label_smoothing_factor", "class_weight")

    def parse(self, columns: ColumnSettings) -> Any:
        """One name."""
        return one_label

    def labels(self, train: Sequence[Example]) -> tuple[str, ...]:
        """The names in train, sorted."""
        return tuple(label_names(train))

    def check(self, examples: Sequence[Example], labels: Sequence[str], *, role: str) -> None:
        """A label that train has not is an error."""
        check_labels(examples, labels, role=role)

    def strata(self, examples: Sequence[Example]) -> list[str]:
        """The labels."""
        return [example.label for example in examples]

    def targets(self, examples: Sequence[Example], bundle: Bundle) -> np.ndarray:
        """Label numbers."""
        numbers = {label: number for number, label in enumerate(bundle.labels)}
        return np.array([numbers[example.label] for example in examples], dtype=np.int64)

    def average(self, scores: np.ndarray) -> np.ndarray:
        """The mean probability, as a logarithm, so that its softmax gives it back."""
        probabilities = torch.softmax(torch.from_numpy(scores).double(), dim=1).mean(dim=0)
        return probabilities.log().float().numpy()

    def objective(self, training: TaskSettings, encoded: EncodedSet, labels: Sequence[str]) -> ClassificationObjective:
        """Cross entropy, weighted and smoothed as asked."""
        weights = None
        if training.class_weight == "balanced":
            weights = balanced_weights(np.concatenate([row.target_value for row in encoded.rows]), len(labels))
        return ClassificationObjective(label_smoothing=training.label_smoothing_factor, class_weights=weights)

    def measure(
        self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle, *, is_final: bool = False
    ) -> dict[str, Any]:
        """Accuracy, macro-F1, the confusion; its interval follows from accuracy and the number of texts."""
        logits = torch.from_numpy(self.scores(outputs, encoded))
        return classification_metrics(logits, self.targets(encoded.examples, bundle), bundle.labels)

    def warn(self, metrics: dict[str, Any], *, role: str) -> None:
        """One class for everything is suspicious."""
        warn_of_collapse(metrics, role=role)

    def answers(self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle) -> list[LabelPrediction]:
        """The most probable label."""
        scores = torch.softmax(torch.from_numpy(self.scores(outputs, encoded)), dim=1)
        best = scores.argmax(dim=1)
        return [
            LabelPrediction(bundle.labels[choice], dict(zip(bundle.labels, row, strict=True)))
            for choice, row in zip(best.tolist(), scores.tolist(), strict=True)
        ]


def balanced_weights(targets: np.ndarray, num_labels: int) -> torch.Tensor:
    """Each class weighs the same in all, and the targets weigh 1 on average; a class that never occurs weighs 0."""
    counts = Counter(targets.tolist())
    present = sum(1 for number in range(num_labels) if counts[number])
    weights = [len(targets) / (present * counts[number]) if counts[number] else 0.0 for number in range(num_labels)]
    return torch.tensor(weights)
