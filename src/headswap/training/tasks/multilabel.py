"""Any number of labels a text."""

from collections.abc import Container, Sequence
from itertools import product
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from headswap.bundle import Bundle
from headswap.core.errors import InputError, counted, did_you_mean, listed, raise_problems
from headswap.model.supervised import MultiLabelObjective
from headswap.text.config import ColumnSettings
from headswap.text.labelled import several_labels
from headswap.text.records import Example
from headswap.training.answers import LabelsPrediction
from headswap.training.config import FinetuneTraining
from headswap.training.resample import f1_of_counts, interval_of
from headswap.training.rows import EncodedSet
from headswap.training.tasks.task import with_state
from headswap.training.tasks.texts import TextTask

THRESHOLD = 0.5
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
        """A label that train has not is an error."""
        known = set(labels)
        unseen: dict[str, list[Example]] = {}
        for example in examples:
            for name in example.labels:
                if name not in known:
                    unseen.setdefault(name, []).append(example)
        raise_problems(
            [
                f"{found[0].source}, line {found[0].line}: the label '{name}' of the {role} set was never seen in "
                f"train ({counted(len(found), 'example')}; labels in train: {listed(labels)})."
                f"{did_you_mean(name, labels)}"
                for name, found in unseen.items()
            ],
            hint=_separator_hint(list(unseen), known),
        )

    def targets(self, examples: Sequence[Example], bundle: Bundle) -> np.ndarray:
        """A row of zeros and ones a text."""
        return present_labels([example.labels for example in examples], bundle.labels).astype(np.float32)

    def average(self, scores: np.ndarray) -> np.ndarray:
        """The mean probability, as log-odds, so that its sigmoid gives it back."""
        return torch.sigmoid(torch.from_numpy(scores).double()).mean(dim=0).logit(eps=1e-12).float().numpy()

    def objective(self, training: FinetuneTraining, encoded: EncodedSet, labels: Sequence[str]) -> MultiLabelObjective:
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


def present_labels(names: Sequence[Sequence[str]], labels: Sequence[str]) -> np.ndarray:
    """Which of the labels each text has, texts x labels."""
    numbers = {label: number for number, label in enumerate(labels)}
    present = np.zeros((len(names), len(labels)), dtype=bool)
    for row, own in zip(present, names, strict=True):
        row[[numbers[name] for name in own]] = True
    return present


def thresholds_of(bundle: Bundle) -> np.ndarray:
    """The threshold of each label."""
    return np.array(bundle.task.thresholds or (THRESHOLD,) * len(bundle.labels))


def best_thresholds(scores: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Of each label the threshold with the best F1, the one nearest to 0.5 among equals; 0.5 if it never occurs."""
    return np.array([_best_threshold(scores[:, label], truth[:, label]) for label in range(scores.shape[1])])


def _best_threshold(scores: np.ndarray, truth: np.ndarray) -> float:
    if not truth.any():
        return THRESHOLD
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    hits = np.cumsum(truth[order])
    f1 = 2 * hits / (np.arange(1, len(scores) + 1) + truth.sum())
    below = np.append(ranked[1:], 0.0)
    can_cut = np.append(ranked[:-1] > ranked[1:], True)  # equal scores go together
    cuts = (ranked + below) / 2
    cuts = np.where((below < THRESHOLD) & (ranked >= THRESHOLD), THRESHOLD, cuts)
    best = can_cut & (f1 >= f1[can_cut].max())
    return float(min(cuts[best], key=lambda cut: abs(cut - THRESHOLD)))


def multilabel_metrics(
    truth: np.ndarray, predicted: np.ndarray, labels: Sequence[str], *, is_final: bool = False
) -> dict[str, Any]:
    """Micro-F1 over all (text, label) pairs, macro-F1 over labels, and the share of texts with all labels right."""
    hits, chosen, there = truth & predicted, predicted, truth
    by_label = np.stack([part.sum(axis=0) for part in (hits, chosen, there)], axis=1)
    by_text = np.stack([part.sum(axis=1) for part in (hits, chosen, there)], axis=1)
    f1 = f1_of_counts(by_label)
    is_there = by_label[:, 1] + by_label[:, 2] > 0  # a label that neither occurs nor is predicted has no F1
    total = by_text.sum(axis=0)
    metrics = {
        "micro_f1": float(f1_of_counts(total)),
        "macro_f1": float(f1[is_there].mean()) if is_there.any() else 0.0,
        "precision": float(total[0] / max(1, total[1])),
        "recall": float(total[0] / max(1, total[2])),
        "exact_match": float((truth == predicted).all(axis=1).mean()),
        "f1": {label: float(f1[number]) for number, label in enumerate(labels) if is_there[number]},
        "labels": list(labels),
        "num_examples": len(truth),
    }
    if is_final:
        metrics["interval"] = interval_of("micro_f1", by_text, f1_of_counts)
    return metrics
