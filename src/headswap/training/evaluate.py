"""Scoring: logits in input order, metrics from counts.

Texts are read once, sorted by length so that a batch holds equals, and cut by a budget of tokens, so memory does not
grow with the data. Nothing of size examples x length x vocabulary is ever kept. A text's result does not depend on
its neighbours.
"""

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headswap.bundle import Bundle
from headswap.core.errors import InputError, RunError
from headswap.model.text_model import TextModel
from headswap.text.batch import flat_batch
from headswap.text.tokenizer import Tokenizer

log = logging.getLogger("headswap")
TOKENS_PER_BATCH = {"cpu": 8_192, "cuda": 131_072}


@dataclass(frozen=True, slots=True)
class Prediction:
    """The label of a text and the score of every label."""

    label: str
    scores: dict[str, float]


@dataclass(frozen=True, slots=True)
class Sequences:
    """Texts as token ids, `<sos>` first, and how much of them was cut off."""

    ids: list[np.ndarray]
    num_tokens: int
    num_truncated: int

    @property
    def truncated_share(self) -> float:
        """Share of the tokens that did not fit."""
        return self.num_truncated / max(1, self.num_tokens)

    def warn_of_truncation(self, max_length: int) -> None:
        """Say how much was cut off, if anything was."""
        if self.num_truncated:
            share = 100 * self.truncated_share
            log.warning("%.1f %% of the tokens were cut off: the model reads at most %d a text.", share, max_length)


def make_sequences(texts: Sequence[str], tokenizer: Tokenizer, *, max_length: int) -> Sequences:
    """Encode texts and cut each at the limit."""
    encoded = tokenizer.encode_batch(list(texts))
    sos = np.array([tokenizer.sos_id])
    ids = [np.concatenate((sos, tokens[: max_length - 1])) for tokens in encoded]
    num_truncated = sum(max(0, len(tokens) + 1 - max_length) for tokens in encoded)
    return Sequences(ids, sum(len(tokens) + 1 for tokens in encoded), num_truncated)


@torch.no_grad()
def logits_of(
    model: TextModel, sequences: Sequence[np.ndarray], *, autocast: AbstractContextManager | None = None
) -> Tensor:
    """The classification logits of every sequence, in input order, in float32 on the CPU."""
    was_training = model.training
    model.eval()
    order = sorted(range(len(sequences)), key=lambda index: len(sequences[index]))
    result = torch.empty(len(sequences), model.shape.num_labels or 0)
    for chosen in token_batches(order, sequences, TOKENS_PER_BATCH[model.device.type]):
        batch = flat_batch([sequences[index] for index in chosen]).to(model.device)
        with autocast or nullcontext():
            logits_BC = model(batch)
        result[chosen] = logits_BC.float().cpu()
    if not result.isfinite().all():
        raise RunError("The model's scores are not finite: its weights are damaged. Restore the bundle from a copy.")
    model.train(was_training)
    return result


def token_batches(order: Sequence[int], sequences: Sequence[np.ndarray], budget: int) -> list[list[int]]:
    """Sequences in the given order, cut into batches of about `budget` tokens."""
    batches: list[list[int]] = []
    used = budget + 1
    for index in order:
        if used + len(sequences[index]) > budget:
            batches.append([])
            used = 0
        batches[-1].append(index)
        used += len(sequences[index])
    return batches


def predict_texts(bundle: Bundle, texts: Sequence[str], *, max_length: int | None = None) -> list[Prediction]:
    """Labels by name with their scores, in input order."""
    if bundle.model.shape.head != "classify":
        raise InputError(
            f"{bundle.path or 'This bundle'} is a language model without a classification head. "
            f"Fine-tune it first (headswap finetune --base ...), or use headswap {bundle.verb}."
        )
    if isinstance(texts, str):
        raise InputError("predict takes a list of texts, not one string. Put it in a list: [text].")
    if wrong := [text for text in texts if not isinstance(text, str)]:
        raise InputError(f"predict takes texts; {wrong[0]!r} is a {type(wrong[0]).__name__}.")
    if blank := [number for number, text in enumerate(texts, 1) if not text.strip()]:
        raise InputError(f"Text {blank[0]} of {len(texts)} is blank, so there is nothing to label.")
    sequences = make_sequences(texts, bundle.tokenizer, max_length=max_length or bundle.max_length)
    sequences.warn_of_truncation(max_length or bundle.max_length)
    scores = torch.softmax(logits_of(bundle.model, sequences.ids), dim=1)
    best = scores.argmax(dim=1)
    return [
        Prediction(bundle.labels[choice], dict(zip(bundle.labels, row, strict=True)))
        for choice, row in zip(best.tolist(), scores.tolist(), strict=True)
    ]


def classification_metrics(logits: Tensor, targets: np.ndarray, labels: Sequence[str]) -> dict[str, Any]:
    """Loss, accuracy, macro-F1, the confusion matrix (rows: truth) and the share of the largest class."""
    num_labels = len(labels)
    predicted = logits.argmax(dim=1).numpy()
    confusion = np.zeros((num_labels, num_labels), dtype=np.int64)
    np.add.at(confusion, (targets, predicted), 1)
    hits, truth, chosen = confusion.diagonal(), confusion.sum(1), confusion.sum(0)
    f1 = 2 * hits / np.maximum(1, truth + chosen)
    is_there = truth + chosen > 0  # a label that neither occurs nor is predicted has no F1
    loss = torch.nn.functional.cross_entropy(logits.double(), torch.as_tensor(targets)).item()
    return {
        "loss": loss,
        "accuracy": float(hits.sum() / len(targets)),
        "macro_f1": float(f1[is_there].mean()),
        "f1": {label: float(f1[index]) for index, label in enumerate(labels) if is_there[index]},
        "majority_share": float(truth.max() / len(targets)),
        "confusion": confusion.tolist(),
        "labels": list(labels),
        "num_examples": len(targets),
    }


def warn_of_collapse(metrics: dict[str, Any], *, role: str) -> None:
    """Say so if one class is predicted for everything: accuracy is then only the share of that class."""
    if not metrics:
        return
    confusion = np.array(metrics["confusion"])
    chosen, truth = confusion.sum(0), confusion.sum(1)
    if (chosen > 0).sum() == 1 and (truth > 0).sum() > 1:
        label = metrics["labels"][int(chosen.argmax())]
        log.warning(
            "The model predicts '%s' for all %d texts of %s. Try a lower learning rate, more warm-up or more epochs.",
            label, metrics["num_examples"], role,
        )  # fmt: skip
