"""Multi-label classification: any number of labels per text."""

from collections import Counter
from collections.abc import Container, Sequence
from itertools import product
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from headswap.batches.labelled_rows import EncodedSet
from headswap.bundle.bundle import Bundle
from headswap.core.errors import InputError, listed
from headswap.data.config import ColumnSettings
from headswap.data.labelled import several_labels
from headswap.data.records import Example
from headswap.data.seen_labels import check_seen
from headswap.metrics.multilabel import THRESHOLD, best_thresholds, multilabel_metrics, present_labels
from headswap.objectives.supervised import MultiLabelObjective
from headswap.tasks.config import TaskSettings
from headswap.tasks.predictions import LabelScores, LabelsPrediction, numbered
from headswap.tasks.task import Table, f1_tables, with_state
from headswap.tasks.text_task import TextTask

SEPARATORS = ";,|"


class MultiLabelTask(TextTask):
    """One sigmoid per label; the thresholds are chosen on validation by the metric of the run."""

    name = "multilabel"
    product = "multi-label classifier"
    labels_texts = True
    columns = (*TextTask.columns, "label_separator")
    selection_metrics = ("micro_f1", "macro_f1", "exact_match", "loss")
    logged_metrics = ("micro_f1", "macro_f1")
    table_metrics = ("micro_f1", "macro_f1", "exact_match")
    settings = ("label_smoothing_factor", "class_weight")
    problem_type = "multi_label_classification"
    version = 2  # one threshold for all labels
    knows_all_labels = True
    prediction_kind = "label sets"
    study_metrics = ("micro_f1", "macro_f1")

    def parse(self, columns: ColumnSettings) -> Any:
        """The labels as a list, or as one string with separators."""
        return several_labels(columns.label_separator)

    def labels(self, train: Sequence[Example]) -> tuple[str, ...]:
        """The labels of train, sorted."""
        names = sorted({name for example in train for name in example.labels})
        if not names:
            raise InputError(f"{train[0].source} has no label on any text. There is nothing to learn.")
        if len({example.labels for example in train}) == 1:
            raise InputError(
                f"{train[0].source} has the same labels ({listed(names)}) on every text. There is nothing to learn."
            )
        return tuple(names)

    def check(self, examples: Sequence[Example], labels: Sequence[str], *, role: str) -> None:
        """Raise if a label of an example does not occur in train."""
        check_seen(
            examples,
            labels,
            role=role,
            labels_of=lambda example: example.labels,
            hint=lambda unseen: _separator_hint(unseen, set(labels)),
        )

    def label_of(self, example: Example) -> list[str]:
        """The labels as a list, so that no separator is needed."""
        return list(example.labels)

    def subset_strata(self, examples: Sequence[Example]) -> list[str]:
        """The rarest label of each text, so that rare labels keep their share; "" for a text without labels."""
        counts = Counter(name for example in examples for name in example.labels)
        return [min(example.labels, key=lambda name: (counts[name], name), default="") for example in examples]

    def targets(self, examples: Sequence[Example], bundle: Bundle) -> np.ndarray:
        """One row of zeros and ones per text."""
        return present_labels([example.labels for example in examples], bundle.labels).astype(np.float32)

    def average(self, scores: np.ndarray) -> np.ndarray:
        """The log-odds of the mean probability, so that its sigmoid is the mean probability."""
        return torch.sigmoid(torch.from_numpy(scores).double()).mean(dim=0).logit(eps=1e-12).float().numpy()

    def objective(self, training: TaskSettings, encoded: EncodedSet, labels: Sequence[str]) -> MultiLabelObjective:
        """Binary cross entropy with label smoothing and class weights as set."""
        weights = None
        if training.class_weight == "balanced":
            targets = np.concatenate([row.target_value for row in encoded.rows])
            present = targets.sum(axis=0)
            counts = np.stack([len(targets) - present, present])
            # both weights are 1 for a label that no text has or all texts have
            weights = np.where((counts > 0).all(axis=0), len(targets) / (2 * np.maximum(1, counts)), 1.0)
        return MultiLabelObjective(
            label_smoothing=training.label_smoothing_factor,
            class_weights=None if weights is None else torch.from_numpy(weights),
        )

    def choose_thresholds(
        self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle, *, metric: str
    ) -> Bundle:
        """One threshold for all labels; with macro-F1 as the metric, one for each."""
        truth = self.targets(encoded.examples, bundle) > 0
        thresholds = best_thresholds(self._probabilities(outputs, encoded), truth, metric)
        return with_state(bundle, thresholds=tuple(thresholds.tolist()))

    def evaluate(
        self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle, *, is_final: bool = False
    ) -> dict[str, Any]:
        """Micro- and macro-F1 with the thresholds of the bundle."""
        targets, limits = self.targets(encoded.examples, bundle), thresholds_of(bundle)
        predicted, loss, at = np.empty(targets.shape, dtype=bool), 0.0, 0
        for scores in self.score_chunks(outputs, encoded):
            rows = slice(at, at + len(scores))
            logits, truth = torch.from_numpy(scores).double(), torch.from_numpy(targets[rows]).double()
            predicted[rows] = torch.sigmoid(logits).numpy() >= limits
            loss += F.binary_cross_entropy_with_logits(logits, truth).item() * (len(scores) / len(targets))
            at = rows.stop
        return {"loss": loss} | multilabel_metrics(targets > 0, predicted, bundle.labels, is_final=is_final)

    def predictions(self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle) -> list[LabelsPrediction]:
        """The labels whose probability reaches their threshold."""
        numbers, limits = numbered(bundle.labels), thresholds_of(bundle)
        return [
            LabelsPrediction(
                tuple(bundle.labels[number] for number in np.flatnonzero(row >= limits)), LabelScores(numbers, row)
            )
            for row in self._probabilities(outputs, encoded)
        ]

    def detail_tables(self, metrics: dict[str, Any]) -> list[Table]:
        """F1 by label."""
        return f1_tables("label", metrics["f1"])

    def _probabilities(self, outputs: Sequence[np.ndarray], encoded: EncodedSet) -> np.ndarray:
        return torch.sigmoid(torch.from_numpy(self.scores(outputs, encoded)).double()).numpy()


def _separator_hint(unseen: Sequence[str], known: Container[str]) -> str:
    """Advice to set the separator, if an unseen label consists of several known ones."""
    for name, sign in product(unseen, SEPARATORS):
        if sign in name and all(part.strip() in known for part in name.split(sign)):
            return f"'{name}' seems to be several labels: pass --label-separator '{sign}'."
    return ""


def thresholds_of(bundle: Bundle) -> np.ndarray:
    """The threshold of each label."""
    return np.array(bundle.task.thresholds or (THRESHOLD,) * len(bundle.labels))
