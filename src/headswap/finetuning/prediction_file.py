"""The test predictions of a run, from which intervals, calibration and disagreements are computed.

`predictions.npz` has plain arrays (no pickle): the probability of every label, the true labels, the label names, and an
id per text, by which two runs can be compared text by text. It has no texts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from headswap.core.errors import InputError, absent
from headswap.core.files import atomic_file
from headswap.data.records import Example, whole_text
from headswap.tasks.predictions import LabelPrediction, numbered

FILE = "predictions.npz"
RUN_AGAIN = " Run the fine-tuning again."


@dataclass(frozen=True)
class Predictions:
    """Probabilities (examples x labels), label numbers, label names, and one id per text."""

    probabilities: np.ndarray
    targets: np.ndarray
    labels: tuple[str, ...]
    text_ids: np.ndarray
    group_ids: np.ndarray | None = None
    """One id per text for its author, patient or thread, if a group column is read; equal in one group."""

    @property
    def is_right(self) -> np.ndarray:
        """Whether each prediction is correct."""
        return self.probabilities.argmax(axis=1) == self.targets

    def save(self, folder: Path) -> None:
        """Write `predictions.npz` into a run folder."""
        with atomic_file(folder / FILE) as temporary, temporary.open("wb") as file:
            arrays: dict[str, Any] = {
                "probabilities": self.probabilities.astype(np.float32, copy=False),
                "targets": self.targets.astype(np.int32),
                "labels": np.array(self.labels, dtype=np.str_),
                "text_ids": self.text_ids,
            }
            if self.group_ids is not None:
                arrays["group_ids"] = self.group_ids
            np.savez_compressed(file, **arrays)

    @classmethod
    def load(cls, folder: Path) -> "Predictions":
        """Read `predictions.npz` of a run folder; a damaged one is an error that names it."""
        file = folder / FILE
        try:
            with np.load(file, allow_pickle=False) as arrays:
                labels = tuple(str(label) for label in arrays["labels"])
                groups = arrays.get("group_ids")
                found = cls(arrays["probabilities"], arrays["targets"], labels, arrays["text_ids"], groups)
            found.check()
            return found
        except FileNotFoundError:
            raise InputError(f"{absent(file)} A fine-tuning run writes it if it has a test set: pass --test.") from None
        except Exception as problem:  # zipfile, zlib and NumPy raise a dozen types of errors for damaged bytes
            why = "it is empty" if not file.stat().st_size else str(problem).rstrip(".") or type(problem).__name__
            raise InputError(f"{file} cannot be read ({why}).{RUN_AGAIN}") from None

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


def predictions_of(
    answers: Sequence[LabelPrediction], examples: Sequence[Example], labels: Sequence[str]
) -> Predictions:
    """The predictions of a classifier for the examples of a test set."""
    numbers = numbered(labels)
    probabilities = np.stack([answer.scores.row for answer in answers])
    targets = np.array([numbers[example.label] for example in examples])
    ids = text_ids([whole_text(example) for example in examples])
    return Predictions(probabilities, targets, tuple(labels), ids, group_ids(examples))


def group_ids(examples: Sequence[Example]) -> np.ndarray | None:
    """A 64-bit id for the group of each example, from which its name cannot be read; None without groups."""
    groups = [example.group for example in examples if example.group is not None]
    return text_ids(groups) if groups and len(groups) == len(examples) else None


def text_ids(texts: Sequence[str]) -> np.ndarray:
    """A 64-bit id for each text."""
    digests = (blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(digests), dtype="<u8")
