"""The test predictions of a run, from which intervals, calibration and disagreements are computed.

`predictions.npz` has plain arrays (no pickle): the probability of every label, the true labels and the label names (of
a regression: the predicted and the true values), and an id per text, by which two runs can be compared text by text.
It has no texts. A task names its kind of predictions in `Task.prediction_kind`; the kinds are in `PREDICTIONS`
(registry.py), and those of other tasks than classification and regression have modules of their own.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from headswap.core.errors import InputError, absent
from headswap.core.files import atomic_file
from headswap.data.records import Example, whole_text
from headswap.metrics.classification import scores
from headswap.metrics.regression import regression_metrics
from headswap.registry import PREDICTIONS
from headswap.tasks.predictions import numbered

FILE = "predictions.npz"
RUN_AGAIN = " Run the fine-tuning again."
ROW_DIGITS = 8
P = TypeVar("P", bound="AnyPredictions")


class AnyPredictions(Protocol):
    """What the predictions of every kind have: one unit per example of the test set, in its order."""

    kind: ClassVar[str]
    """The name in `PREDICTIONS`."""
    has_classes: ClassVar[bool]
    """Whether each example has one of several labels, so that there is a confusion matrix and a calibration."""

    @property
    def has_scores(self) -> bool:
        """Whether there are probabilities of labels."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels; empty where predictions are no labels."""

    @property
    def text_ids(self) -> np.ndarray:
        """One id per example."""

    @property
    def group_ids(self) -> np.ndarray | None:
        """One id per example for its group, if examples of one group are not independent."""

    @property
    def test_key(self) -> tuple[Any, ...]:
        """What runs must share to be compared."""

    def scores(self) -> dict[str, float]:
        """All metrics."""

    @classmethod
    def of(cls, outputs: Any, examples: Sequence[Any], labels: Sequence[str]) -> "AnyPredictions":
        """The outputs of a baseline for the examples of a test set."""

    @classmethod
    def of_model(cls, answers: Sequence[Any], examples: Sequence[Any], labels: Sequence[str]) -> "AnyPredictions":
        """The predictions of a model for the examples of a test set."""

    def save(self, folder: Path) -> None:
        """Write `predictions.npz` into a run folder."""

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "AnyPredictions":
        """The predictions of the arrays of a file."""

    def check(self) -> None:
        """Raise a ValueError if the arrays do not belong together."""


@dataclass(frozen=True)
class Predictions:
    """Probabilities (examples x labels), label numbers, label names, and one id per text."""

    kind: ClassVar[str] = "classes"
    has_classes: ClassVar[bool] = True
    probabilities: np.ndarray
    targets: np.ndarray
    labels: tuple[str, ...]
    text_ids: np.ndarray
    group_ids: np.ndarray | None = None
    """One id per text for its author, patient or thread, if a group column is read; equal in one group."""
    has_scores: bool = True
    """False for a system that gave labels only: `probabilities` then are 1 for its label, and no confidence, log loss
    or calibration may be computed from them."""

    @property
    def is_right(self) -> np.ndarray:
        """Whether each prediction is correct."""
        return self.probabilities.argmax(axis=1) == self.targets

    @property
    def test_key(self) -> tuple[Any, ...]:
        """What runs must share to be compared: label names, texts in their order, true labels."""
        return self.labels, self.text_ids.tobytes(), self.targets.astype(np.int64).tobytes()

    def scores(self) -> dict[str, float]:
        """The metrics; without probabilities there is no log loss and no calibration error."""
        found = scores(self.probabilities, self.targets)
        return found if self.has_scores else {name: found[name] for name in ("accuracy", "macro_f1")}

    @classmethod
    def of(cls, outputs: np.ndarray, examples: Sequence[Example], labels: Sequence[str]) -> "Predictions":
        """The probabilities of every label for the examples of a test set."""
        numbers = numbered(labels)
        targets = np.array([numbers[example.label] for example in examples])
        ids = text_ids([whole_text(example) for example in examples])
        return cls(outputs, targets, tuple(labels), ids, group_ids(examples))

    @classmethod
    def of_model(cls, answers: Sequence[Any], examples: Sequence[Example], labels: Sequence[str]) -> "Predictions":
        """The scores of a model for the examples of a test set."""
        return cls.of(np.stack([answer.scores.row for answer in answers]), examples, labels)

    def save(self, folder: Path) -> None:
        """Write `predictions.npz` into a run folder."""
        save_arrays(
            folder,
            None,
            probabilities=self.probabilities.astype(np.float32, copy=False),
            targets=self.targets.astype(np.int32),
            labels=np.array(self.labels, dtype=np.str_),
            text_ids=self.text_ids,
            group_ids=self.group_ids,
            has_scores=None if self.has_scores else np.array(False),
        )

    @classmethod
    def load(cls, folder: Path) -> "Predictions":
        """Read `predictions.npz` of a run folder; a damaged one is an error that names it."""
        return _read(folder, cls.from_arrays)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "Predictions":
        """The predictions of the arrays of a file."""
        labels = tuple(str(label) for label in arrays["labels"])
        groups = arrays.get("group_ids")
        has_scores = bool(arrays.get("has_scores", True))
        ids = arrays["text_ids"]
        return cls(arrays["probabilities"], arrays["targets"], labels, ids, groups, has_scores)

    def check(self) -> None:
        """Raise a ValueError if the arrays do not belong together: one row per text, one column per label."""
        shapes = [array.shape for array in (self.probabilities, self.targets, self.text_ids)]
        num_texts, num_labels = len(self.text_ids) if shapes[2] else 0, len(self.labels)
        if not num_texts or shapes != [(num_texts, num_labels), (num_texts,), (num_texts,)]:
            names = ("probabilities", "targets", "text_ids")
            found = ", ".join(f"{name} {shape}" for name, shape in zip(names, shapes, strict=True))
            raise ValueError(f"the arrays have the shapes {found} with {num_labels} labels")
        if self.group_ids is not None and self.group_ids.shape != (num_texts,):
            raise ValueError(f"group_ids have the shape {self.group_ids.shape} for {num_texts} texts")
        if self.targets.dtype.kind not in "iu" or not ((self.targets >= 0) & (self.targets < num_labels)).all():
            raise ValueError(f"targets must be numbers of the {num_labels} labels")
        if self.probabilities.dtype.kind != "f" or not np.isfinite(self.probabilities).all():
            raise ValueError("probabilities must be finite numbers")


@dataclass(frozen=True)
class ValuePredictions:
    """Predicted and true values of a regression, and one id per text."""

    kind: ClassVar[str] = "values"
    has_classes: ClassVar[bool] = False
    labels: ClassVar[tuple[str, ...]] = ()
    has_scores: ClassVar[bool] = False
    values: np.ndarray
    targets: np.ndarray
    text_ids: np.ndarray
    group_ids: np.ndarray | None = None

    @property
    def test_key(self) -> tuple[Any, ...]:
        """What runs must share to be compared: texts in their order, true values."""
        return "values", self.text_ids.tobytes(), self.targets.astype(np.float64).tobytes()

    def scores(self) -> dict[str, float]:
        """The metrics. A constant prediction has the correlation 0: it orders no two texts."""
        found = regression_metrics(self.targets, self.values)
        return {name: 0.0 if found[name] is None else found[name] for name in VALUE_METRICS}

    @classmethod
    def of(cls, outputs: np.ndarray, examples: Sequence[Example], labels: Sequence[str]) -> "ValuePredictions":
        """The predicted values for the examples of a test set."""
        del labels
        targets = np.array([example.value for example in examples])
        return cls(outputs, targets, text_ids([whole_text(example) for example in examples]), group_ids(examples))

    @classmethod
    def of_model(cls, answers: Sequence[Any], examples: Sequence[Example], labels: Sequence[str]) -> "ValuePredictions":
        """The values that a model predicts for the examples of a test set."""
        return cls.of(np.array([answer.value for answer in answers], dtype=np.float64), examples, labels)

    def save(self, folder: Path) -> None:
        """Write `predictions.npz` into a run folder."""
        save_arrays(
            folder, None, values=self.values, targets=self.targets, text_ids=self.text_ids, group_ids=self.group_ids
        )

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> "ValuePredictions":
        """The predictions of the arrays of a file."""
        return cls(arrays["values"], arrays["targets"], arrays["text_ids"], arrays.get("group_ids"))

    def check(self) -> None:
        """Raise a ValueError if the arrays do not belong together: one finite number per text."""
        arrays = [self.values, self.targets, *([] if self.group_ids is None else [self.group_ids])]
        if not self.text_ids.size or any(array.shape != self.text_ids.shape for array in arrays):
            raise ValueError(f"the arrays have the shapes {[array.shape for array in (self.text_ids, *arrays)]}")
        for name, array in (("values", self.values), ("targets", self.targets)):
            if array.dtype.kind != "f" or not np.isfinite(array).all():
                raise ValueError(f"{name} must be finite numbers")


VALUE_METRICS = ("mse", "mae", "pearson", "spearman", "r2")
KIND = "kind"
"""The array with the kind of the predictions; files of classes and values have none."""


def load_predictions(folder: Path) -> AnyPredictions:
    """The predictions of a run folder, of the kind that it has; a damaged file is an error that names it."""

    def make(arrays: Mapping[str, np.ndarray]) -> AnyPredictions:
        kind = str(arrays[KIND]) if KIND in arrays else "values" if "values" in arrays else "classes"
        return PREDICTIONS.load(kind).from_arrays(arrays)

    return _read(folder, make)


def _read(folder: Path, make: Callable[[Mapping[str, np.ndarray]], P]) -> P:
    file = folder / FILE
    try:
        with np.load(file, allow_pickle=False) as arrays:
            found = make(arrays)
        found.check()
        return found
    except FileNotFoundError:
        raise InputError(f"{absent(file)} A fine-tuning run writes it if it has a test set: pass --test.") from None
    except Exception as problem:  # zipfile, zlib and NumPy raise a dozen types of errors for damaged bytes
        why = "it is empty" if not file.stat().st_size else str(problem).rstrip(".") or type(problem).__name__
        raise InputError(f"{file} cannot be read ({why}).{RUN_AGAIN}") from None


def save_arrays(folder: Path, kind: str | None, **arrays: np.ndarray | None) -> None:
    """Write `predictions.npz` with the arrays that are not None, and with their kind if it is given."""
    arrays |= {KIND: None if kind is None else np.array(kind)}
    given: dict[str, Any] = {name: array for name, array in arrays.items() if array is not None}
    with atomic_file(folder / FILE) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **given)


def group_ids(examples: Sequence[Example]) -> np.ndarray | None:
    """A 64-bit id for the group of each example, from which its name cannot be read; None without groups."""
    groups = [example.group for example in examples if example.group is not None]
    return text_ids(groups) if groups and len(groups) == len(examples) else None


def row_ids(role: str, ids: np.ndarray) -> list[str]:
    """A name per row of a set, such as `test-17-9f2c01ab`: its number, counted from 1, and a hash of its text."""
    return [f"{role}-{number}-{int(id) % 16**ROW_DIGITS:0{ROW_DIGITS}x}" for number, id in enumerate(ids, start=1)]


def text_ids(texts: Sequence[str]) -> np.ndarray:
    """A 64-bit id for each text."""
    digests = (blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(digests), dtype="<u8")
