"""Which texts to label next: those that a classifier is least sure about, without texts that resemble each other.

Texts are scored as a stream, and only the most uncertain ones are held: ten per text to choose. The uncertainty of a
classifier is the entropy of its probabilities divided by that of a uniform guess; with several labels per text, the
mean over the labels. From the held texts one after the other is chosen: the text with the largest product of its
uncertainty and its distance to the chosen ones, on the vectors of the model's base. Equal texts are held once.
"""

import csv
import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import tee
from pathlib import Path
from typing import Any

import numpy as np

from headswap.bundle.bundle import Bundle
from headswap.core.errors import InputError
from headswap.core.terminal_text import one_line
from headswap.data.fingerprints import normalised
from headswap.inference.embed import embed_texts
from headswap.inference.predict import predict_stream
from headswap.tasks.choose import task_of
from headswap.tasks.predictions import LabelPrediction, LabelsPrediction

HELD_PER_CHOSEN, FEWEST_HELD = 10, 200
TINY = 1e-12


@dataclass(frozen=True)
class Suggestion:
    """A text to label, its place in the input (from 1 on), and what the model predicts for it."""

    row: int
    text: str
    uncertainty: float
    """From 0 (sure) to 1 (all labels are equally probable)."""
    prediction: LabelPrediction | LabelsPrediction

    def as_json(self) -> dict[str, Any]:
        """The object of `suggest --json`."""
        predicted = self.prediction.as_json()
        return {"row": self.row, "uncertainty": round(self.uncertainty, 6), "text": self.text, "prediction": predicted}

    def as_line(self) -> str:
        """Row, uncertainty and text, separated by tabs."""
        return f"{self.row}\t{self.uncertainty:.4f}\t{one_line(self.text)}"


def suggest_texts(bundle: Bundle, texts: Iterable[str], count: int) -> list[Suggestion]:
    """The texts to label next, in the order in which they were chosen; fewer if there are fewer different texts."""
    check_task(bundle)
    held = _most_uncertain(_scored(bundle, texts), max(FEWEST_HELD, HELD_PER_CHOSEN * count))
    if len(held) <= 1:
        return held[:count]
    texts_held = [one.text for one in held]  # the predictions have warned of truncation
    vectors = embed_texts(bundle, texts_held, warns_of_truncation=False).astype(np.float64)
    vectors -= vectors.mean(axis=0)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), TINY)
    return [held[place] for place in spread(vectors, np.array([one.uncertainty for one in held]), count)]


def is_to_label(file: Path) -> bool:
    """Whether a file is a table as `suggest` writes it, still without labels."""
    try:
        with file.open(encoding="utf-8", newline="") as opened:
            rows = csv.reader(opened)
            return next(rows, None) == ["text", "label"] and all(len(row) == 2 and not row[1] for row in rows)
    except (OSError, UnicodeDecodeError, csv.Error):
        return False


def check_task(bundle: Bundle) -> None:
    """Refuse models without probabilities of labels, and those that read pairs of texts."""
    task = task_of(bundle)
    if not task.labels_texts or task.input_form(bundle.task).second is not None:
        what = "pairs of texts" if task.labels_texts else f"the task {task.name}"
        raise InputError(
            f"suggest is for classifiers of single texts (classify, multilabel); this model is for {what}. "
            "Choose texts for it by hand."
        )


def uncertainty_of(prediction: LabelPrediction | LabelsPrediction) -> float:
    """Entropy as a share of the largest possible one; with several labels the mean over the labels."""
    scores = prediction.scores.row.astype(np.float64).clip(TINY, 1.0)
    if isinstance(prediction, LabelPrediction):
        return float(-(scores * np.log(scores)).sum() / np.log(max(2, len(scores))))
    others = (1.0 - scores).clip(TINY, 1.0)
    return float(-(scores * np.log2(scores) + others * np.log2(others)).mean())


def _scored(bundle: Bundle, texts: Iterable[str]) -> Iterator[Suggestion]:
    """Each text with its prediction; the texts of one chunk are held."""
    ours, theirs = tee(texts)
    predictions = predict_stream(bundle, (text for text in theirs))
    for row, (text, prediction) in enumerate(zip(ours, predictions, strict=True), 1):
        assert isinstance(prediction, LabelPrediction | LabelsPrediction)
        yield Suggestion(row, text, uncertainty_of(prediction), prediction)


def _most_uncertain(found: Iterable[Suggestion], number: int) -> list[Suggestion]:
    """The most uncertain texts, the first of equal ones, sorted by uncertainty and then by row."""
    heap: list[tuple[float, int, str, Suggestion]] = []
    known: set[str] = set()
    for one in found:
        entry = (one.uncertainty, -one.row)
        if len(heap) == number and entry <= heap[0][:2]:
            continue
        if (key := normalised(one.text)) in known:
            continue
        known.add(key)
        heapq.heappush(heap, (*entry, key, one))
        if len(heap) > number:
            known.discard(heapq.heappop(heap)[2])
    return [one for *_, one in sorted(heap, key=lambda entry: (-entry[0], -entry[1]))]


def spread(vectors: np.ndarray, uncertainties: np.ndarray, count: int) -> list[int]:
    """Places with a large product of uncertainty and distance to the places before; the most uncertain one is first."""
    chosen = [int(uncertainties.argmax())]
    distances = np.full(len(vectors), np.inf)
    is_free = np.ones(len(vectors), dtype=bool)
    is_free[chosen[0]] = False
    while len(chosen) < min(count, len(vectors)):
        distances = np.minimum(distances, 1.0 - vectors @ vectors[chosen[-1]])
        chosen.append(int(np.where(is_free, uncertainties * distances.clip(0.0), -1.0).argmax()))
        is_free[chosen[-1]] = False
    return chosen
