"""Several classifiers as one: the mean of their probabilities.

The models may have different bases, tokenizers, directions and orders of labels; each reads a text in its own way and
uses its own temperature. A forward and a backward base, or runs with other seeds, make different errors, so their mean
is usually better than each of them. The result has the form of one model's outputs, with one row per text.

Shapes: R texts, C labels.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from headswap.batches.labelled_rows import NOTHING, EncodedSet, Row
from headswap.bundle.bundle import Bundle
from headswap.core.errors import InputError
from headswap.inference.outputs import outputs_of
from headswap.tasks.choose import task_of
from headswap.tasks.predictions import LabelScores
from headswap.tasks.task import with_state


@dataclass(frozen=True)
class Averaged:
    """Outputs (logarithms of mean probabilities), rows and bundle, as the methods of a task read them."""

    outputs: list[np.ndarray]
    encoded: EncodedSet
    bundle: Bundle


def check_can_be_averaged(bundles: Sequence[Bundle]) -> None:
    """Raise where a model is no classifier, or does not have the labels and inputs of the first one."""
    first = bundles[0]
    for bundle in bundles:
        name = _name(bundle)
        if bundle.model.shape.head == "lm" or not task_of(bundle).one_label_per_text:
            raise InputError(f"{name} is {bundle.what}, not a classifier, so its predictions cannot be averaged.")
        if set(bundle.labels) != set(first.labels):
            other = sorted(set(bundle.labels) ^ set(first.labels))[0]
            raise InputError(f"{name} and {_name(first)} do not have the same labels: only one of them has '{other}'.")
        if bundle.task.reads_pairs != first.task.reads_pairs:
            raise InputError(f"Only one of {name} and {_name(first)} reads pairs of texts, so they cannot be averaged.")


def averaged(
    bundles: Sequence[Bundle], examples: Sequence[Any], *, autocast: AbstractContextManager | None = None
) -> Averaged:
    """What the models predict together for some examples; the notes and truncated tokens are those of the first."""
    encoded = [task_of(bundle).encode_inputs(examples, bundle) for bundle in bundles]
    total_RC = np.zeros((len(examples), len(bundles[0].labels)))
    for bundle, own in zip(bundles, encoded, strict=True):
        total_RC += _probabilities(bundle, own, bundles[0].labels, autocast)
    smallest = np.finfo(np.float32).tiny
    logs_RC = np.log(np.maximum(total_RC / len(bundles), smallest)).astype(np.float32)
    rows = [Row(number, NOTHING) for number in range(len(examples))]
    return Averaged(list(logs_RC), replace(encoded[0], rows=rows), with_state(bundles[0], temperature=1.0))


def _probabilities(
    bundle: Bundle, encoded: EncodedSet, labels: Sequence[str], autocast: AbstractContextManager | None
) -> np.ndarray:
    """The probabilities of one model, R x C, with the labels in the given order."""
    outputs = outputs_of(bundle.model, encoded.rows, autocast=autocast)
    found = [prediction.scores for prediction in task_of(bundle).predictions(outputs, encoded, bundle)]
    rows_RC = np.array([one.row for one in found if isinstance(one, LabelScores)], dtype=np.float64)
    order = [bundle.labels.index(label) for label in labels]
    return rows_RC.reshape(len(encoded), len(labels))[:, order]


def load_others(paths: Sequence[str], first: Bundle, *, device: torch.device) -> list[Bundle]:
    """The bundles that are averaged with a first one."""
    others = [Bundle.load(path, device=device) for path in paths]
    if others:
        check_can_be_averaged([first, *others])
    return others


def _name(bundle: Bundle) -> str:
    return "The first model" if bundle.path is None else str(bundle.path)
