"""Any number of labels a text."""

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
from headswap.tasks.predictions import LabelsPrediction
from headswap.tasks.task import with_state
from headswap.tasks.text_task import TextTask

SEPARATORS = ";,|"


class MultiLabelTask(TextTask):
    """A sigmoid a label; from which score on a label is given is chosen on validation, label by label."""

    name = "multilabel"
    product = "multi-label classifier"
    columns = (*TextTask.columns, "label_separator")
    metrics = ("micro_f1", "macro_f1", "exact_match", "loss")
    shown = ("micro_f1", "macro_f1")
    settings = ("label_smoothing_factor", "class_weight")

    def parse(self, columns: ColumnSettings) -> Any:
        """A list of names, or names in one string."""
        return several_labels(columns.label_separator)

    def labels(self, train: Sequence[Example]) -> tuple[str, ...]:
        """The names in train, sorted."""
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

    def targets(self, examples: Sequence[Example], bundle: Bundle) -> np.ndarray:
        """A row of zeros and ones a text."""
        return present_labels([example.labels for example in examples], bundle.labels).astype(np.float32)

    def average(self, scores: np.ndarray) -> np.ndarray:
        """The mean probability, as log-odds, so that its sigmoid gives it back."""
        return torch.sigmoid(torch.from_numpy(scores).double()).mean(dim=0).logit(eps=1e-12).float().numpy()

    def objective(self, training: TaskSettings, encoded: EncodedSet, labels: Sequence[str]) -> MultiLabelObjective:
        """Binary cross entropy, weighted and smoothed as asked."""
        weights = None
        if training.class_weight == "balanced":
            targets = np.concatenate([row.target_value for row in encoded.rows])
            here = targets.sum(axis=0)
            counts = np.stack([len(targets) - here, here])
            # a label that stands nowhere, or everywhere, has one side only, which then weighs 1
            weights = np.where((counts > 0).all(axis=0), len(targets) / (2 * np.maximum(1, counts)), 1.0)
        return MultiLabelObjective(
            label_smoothing=training.label_smoothing_factor,
            class_weights=None if weights is None else torch.from_numpy(weights),
        )

    def choose(self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle) -> Bundle:
        """A threshold for each label."""
        thresholds = best_thresholds(self._probabilities(outputs, encoded), self.targets(encoded.examples, bundle) > 0)
        return with_state(bundle, thresholds=tuple(thresholds.tolist()))

    def measure(
        self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle, *, is_final: bool = False
    ) -> dict[str, Any]:
        """Micro- and macro-F1 with the thresholds of the bundle."""
        logits = torch.from_numpy(self.scores(outputs, encoded)).double()
        targets = torch.from_numpy(self.targets(encoded.examples, bundle)).double()
        predicted = torch.sigmoid(logits).numpy() >= thresholds_of(bundle)
        metrics = multilabel_metrics(targets.numpy() > 0, predicted, bundle.labels, is_final=is_final)
        return {"loss": F.binary_cross_entropy_with_logits(logits, targets).item()} | metrics

    def answers(self, outputs: Sequence[np.ndarray], encoded: EncodedSet, bundle: Bundle) -> list[LabelsPrediction]:
        """The labels whose probability reaches their threshold."""
        scores, limits = self._probabilities(outputs, encoded), thresholds_of(bundle)
        return [
            LabelsPrediction(
                tuple(name for name, is_given in zip(bundle.labels, row >= limits, strict=True) if is_given),
                dict(zip(bundle.labels, row.tolist(), strict=True)),
            )
            for row in scores
        ]

    def _probabilities(self, outputs: Sequence[np.ndarray], encoded: EncodedSet) -> np.ndarray:
        return torch.sigmoid(torch.from_numpy(self.scores(outputs, encoded)).double()).numpy()


def _separator_hint(unseen: Sequence[str], known: Container[str]) -> str:
    """What to do where an unseen label is several known ones in one string."""
    for name, sign in product(unseen, SEPARATORS):
        if sign in name and all(part.strip() in known for part in name.split(sign)):
            return f"'{name}' seems to be several labels: pass --label-separator '{sign}'."
    return ""


def thresholds_of(bundle: Bundle) -> np.ndarray:
    """The threshold of each label."""
    return np.array(bundle.task.thresholds or (THRESHOLD,) * len(bundle.labels))
