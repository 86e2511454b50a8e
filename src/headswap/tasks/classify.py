"""Classification: one label per text."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from headswap.batches.labelled_rows import EncodedSet
from headswap.bundle.bundle import Bundle
from headswap.data.config import ColumnSettings
from headswap.data.labelled import check_labels, label_names, one_label
from headswap.data.records import Example
from headswap.metrics.classification import classification_metrics, warn_of_collapse
from headswap.metrics.intervals import wilson_interval
from headswap.metrics.temperature import calibration_effect, fitted_temperature
from headswap.objectives.supervised import ClassificationObjective
from headswap.tasks.config import TaskSettings
from headswap.tasks.predictions import LabelPrediction, LabelScores, numbered
from headswap.tasks.task import Table, with_state
from headswap.tasks.text_task import TextTask

MAX_LABELS_OF_CONFUSION = 10


class ClassifyTask(TextTask):
    """Softmax over the labels of train. Compare with multilabel, where a text has any number of labels."""

    name = "classify"
    product = "classifier"
    selection_metrics = ("accuracy", "macro_f1", "loss")
    logged_metrics = ("accuracy", "macro_f1")
    table_metrics = ("accuracy", "macro_f1")
    settings = ("label_smoothing_factor", "class_weight", "calibrate")
    problem_type = "single_label_classification"
    one_label_per_text = one_label_per_target = labels_texts = True
    label_noun = "class"
    prediction_kind = "classes"
    study_metrics = ("accuracy", "macro_f1")

    def parse(self, columns: ColumnSettings) -> Any:
        """The label as one name."""
        return one_label

    def labels(self, train: Sequence[Example]) -> tuple[str, ...]:
        """The labels of train, sorted."""
        return tuple(label_names(train))

    def check(self, examples: Sequence[Example], labels: Sequence[str], *, role: str) -> None:
        """A label that is not in train is an error."""
        check_labels(examples, labels, role=role)

    def strata(self, examples: Sequence[Example]) -> list[str]:
        """The labels."""
        return [example.label for example in examples]

    def targets(self, examples: Sequence[Example], bundle: Bundle) -> np.ndarray:
        """Label numbers."""
        numbers = {label: number for number, label in enumerate(bundle.labels)}
        return np.array([numbers[example.label] for example in examples], dtype=np.int64)

    def average(self, scores: np.ndarray) -> np.ndarray:
        """The logarithm of the mean probability, so that its softmax is the mean probability."""
        probabilities = torch.softmax(torch.from_numpy(scores).double(), dim=1).mean(dim=0)
        return probabilities.log().float().numpy()

    def objective(self, training: TaskSettings, encoded: EncodedSet, labels: Sequence[str]) -> ClassificationObjective:
        """Cross entropy with label smoothing and class weights as set."""
        return cross_entropy(training, encoded, labels)

    def evaluate(
        self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle, *, is_final: bool = False
    ) -> dict[str, Any]:
        """Accuracy, macro-F1 and the confusions; the interval of accuracy is computed by `interval`."""
        chunks = (torch.from_numpy(scores) for scores in self._logits(outputs, encoded, bundle))
        return classification_metrics(chunks, self.targets(encoded.examples, bundle), bundle.labels)

    def calibrated(
        self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle
    ) -> tuple[Bundle, dict[str, Any]]:
        """The bundle with the temperature that has the lowest log loss, and its effect."""
        temperature = fitted_temperature(self.scores(outputs, encoded), self.targets(encoded.examples, bundle))
        bundle = with_state(bundle, temperature=temperature)
        return bundle, self.effect_of_temperature(outputs, encoded, bundle)

    def effect_of_temperature(
        self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle
    ) -> dict[str, Any]:
        """Log loss and calibration error without and with the temperature of the bundle."""
        logits, targets = self.scores(outputs, encoded), self.targets(encoded.examples, bundle)
        return calibration_effect(logits, targets, bundle.task.temperature)

    def _logits(self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle) -> Iterator[np.ndarray]:
        """The scores of the texts in chunks, divided by the temperature of the bundle."""
        temperature = bundle.task.temperature
        for logits in self.score_chunks(outputs, encoded):
            yield logits if temperature == 1 else (logits / temperature).astype(logits.dtype)

    def warn_of_problems(self, metrics: dict[str, Any], *, role: str) -> None:
        """Log a warning if one class is predicted for every text."""
        warn_of_collapse(metrics, role=role)

    def predictions(self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle) -> list[LabelPrediction]:
        """The most probable label."""
        numbers, found = numbered(bundle.labels), []
        for scores in self._logits(outputs, encoded, bundle):
            probabilities = torch.softmax(torch.from_numpy(scores), dim=1).numpy()
            best = probabilities.argmax(axis=1).tolist()
            found += [
                LabelPrediction(bundle.labels[choice], LabelScores(numbers, row))
                for choice, row in zip(best, probabilities, strict=True)
            ]
        return found

    def interval(self, metrics: dict[str, Any]) -> tuple[float, float]:
        """Wilson's interval of the accuracy."""
        return wilson_interval(metrics["accuracy"], metrics["num_examples"])

    def describe_set(self, metrics: dict[str, Any]) -> str:
        """The number of texts and the share of the largest class, which is the accuracy of the majority baseline."""
        return f"{super().describe_set(metrics)}, largest class {metrics['majority_share']:.3f} of them"

    def extra_rows(self, metrics: dict[str, Any]) -> list[tuple[str, float]]:
        """The share of the largest class."""
        return [("largest class of these texts", metrics["majority_share"])]

    def detail_tables(self, metrics: dict[str, Any]) -> list[Table]:
        """The confusion matrix, if there are few classes."""
        labels = metrics["labels"]
        if metrics["confusion"] is None or len(labels) > MAX_LABELS_OF_CONFUSION:
            return []
        rows = [(label, *row) for label, row in zip(labels, metrics["confusion"], strict=True)]
        return [Table("Confusion", ("truth \\ predicted", *labels), rows)]


def cross_entropy(training: TaskSettings, encoded: EncodedSet, labels: Sequence[str]) -> ClassificationObjective:
    """Cross entropy of the rows' targets, with label smoothing and class weights as set."""
    weights = None
    if training.class_weight == "balanced":
        weights = balanced_weights(np.concatenate([row.target_value for row in encoded.rows]), len(labels))
    return ClassificationObjective(label_smoothing=training.label_smoothing_factor, class_weights=weights)


def balanced_weights(targets: np.ndarray, num_labels: int) -> torch.Tensor:
    """Weights that give each class the same total, with mean 1 over the targets; 0 for a class that never occurs."""
    counts = Counter(targets.tolist())
    present = sum(1 for number in range(num_labels) if counts[number])
    weights = [len(targets) / (present * counts[number]) if counts[number] else 0.0 for number in range(num_labels)]
    return torch.tensor(weights)
