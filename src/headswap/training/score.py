"""Scoring a saved bundle on new data: what `headswap evaluate` does."""

import logging
from typing import Any

import numpy as np

from headswap.bundle import Bundle
from headswap.core.errors import SettingError
from headswap.model.pretraining import make_objective
from headswap.text.cache import cached_store
from headswap.text.config import DocumentUnit, ReadSettings
from headswap.text.labelled import check_labels, read_labelled
from headswap.training.evaluate import (
    classification_metrics,
    logits_of,
    make_sequences,
    warn_of_collapse,
)
from headswap.training.held_out import held_out_metrics
from headswap.training.machine import Machine

log = logging.getLogger("headswap")


def score_classifier(
    bundle: Bundle,
    data: str,
    *,
    text_column: str,
    label_column: str,
    label_file: str | None,
    max_length: int | None,
    machine: Machine,
) -> dict[str, Any]:
    """Accuracy, macro-F1, confusion and more on a labelled set; a label the model never saw is an error."""
    examples = read_labelled(data, text_column=text_column, label_column=label_column, label_file=label_file)
    check_labels(examples, bundle.labels, role="test")
    length = checked_length(bundle, max_length)
    sequences = make_sequences([example.text for example in examples], bundle.tokenizer, max_length=length)
    numbers = {label: number for number, label in enumerate(bundle.labels)}
    targets = np.array([numbers[example.label] for example in examples])
    logits = logits_of(bundle.model, sequences.ids, autocast=machine.autocast())
    metrics = classification_metrics(logits, targets, bundle.labels)
    warn_of_collapse(metrics, role=data)
    return metrics | {"truncated_share": sequences.truncated_share}


def score_language_model(
    bundle: Bundle, data: str, *, text_column: str, documents: DocumentUnit, max_length: int | None, machine: Machine
) -> dict[str, Any]:
    """Loss a token, perplexity and bits a byte over a whole corpus, in packed windows."""
    length = checked_length(bundle, max_length)
    settings = ReadSettings(documents=documents, text_column=text_column)
    objective = make_objective(bundle.objective, bundle.tokenizer, bundle.masking)
    store = cached_store([data], settings, bundle.tokenizer, side=objective.sides)
    rows = objective.rows(store, np.arange(store.num_documents), max_length=length, layout="packed")
    num_bytes = int(store.byte_counts.sum())
    metrics = held_out_metrics(bundle.model, objective, rows, num_bytes=num_bytes, autocast=machine.autocast())
    return {**metrics, "num_tokens": rows.num_tokens, "num_documents": store.num_documents, "num_bytes": num_bytes}


def checked_length(bundle: Bundle, max_length: int | None) -> int:
    """The length limit in force; more than the base can read is an error."""
    if max_length is not None and not 2 <= max_length <= bundle.max_length:
        raise SettingError(f"max_length is {max_length}, but this base reads 2 to {bundle.max_length} tokens.")
    return max_length or bundle.max_length
