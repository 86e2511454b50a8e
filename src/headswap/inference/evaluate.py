"""Evaluation of a saved bundle on new data, as in `headswap evaluate`."""

import logging
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from headswap.bundle.bundle import Bundle
from headswap.core.errors import InputError, SettingError
from headswap.data.config import ColumnSettings, DocumentUnit, ReadSettings
from headswap.data.doctor import LARGE_UNKNOWN
from headswap.inference.abstain import abstention_metrics, check_limit
from headswap.inference.average import averaged
from headswap.inference.language_model import held_out_metrics, scored_bytes, scored_parts
from headswap.inference.outputs import outputs_of
from headswap.objectives.objective import make_objective
from headswap.tasks.choose import task_of
from headswap.tasks.task import with_state
from headswap.tokens.cache import cached_store
from headswap.tokens.store import num_tokens_equal

log = logging.getLogger("headswap")


def score_task(
    bundle: Bundle,
    data: str,
    *,
    columns: ColumnSettings,
    label_file: str | None,
    max_length: int | None,
    autocast: AbstractContextManager,
    abstain_below: float | None = None,
    others: Sequence[Bundle] = (),
) -> dict[str, Any]:
    """All metrics of the bundle's task on a labelled set; a label that is not in the bundle is an error.

    With `abstain_below` also the coverage and the accuracy of the texts that a classifier then answers. The
    probabilities of a classifier are averaged with those of `others`.
    """
    task = task_of(bundle)
    check_limit(bundle, abstain_below)
    task.check_columns(columns)
    if bundle.task.reads_pairs != (columns.text_pair_column is not None):
        raise SettingError(
            "This model reads pairs of texts. Pass --text-pair-column with the name of the second text's column."
            if bundle.task.reads_pairs
            else "--text-pair-column cannot be used: this model reads one text at a time."
        )
    examples = task.read(data, columns, label_file)
    task.check(examples, bundle.labels, role="test")
    if max_length is not None:
        bundle, *others = [with_state(one, max_length=checked_length(one, max_length)) for one in (bundle, *others)]
    if others:
        together = averaged([bundle, *others], examples, autocast=autocast)
        outputs, encoded, bundle = together.outputs, together.encoded, together.bundle
    else:
        encoded = task.encode(examples, bundle)
        outputs = outputs_of(bundle.model, encoded.rows, autocast=autocast)
    metrics = task.evaluate(outputs, encoded, bundle, is_final=True)
    task.warn_of_problems(metrics, role=data)
    if abstain_below is not None:
        answers, truth = task.predictions(outputs, encoded, bundle), [example.label for example in examples]
        metrics["abstention"] = abstention_metrics(answers, truth, bundle.labels, abstain_below)
    for note in encoded.notes:
        log.info("%s: %s.", data, note)
    return metrics | {"truncated_share": encoded.truncated_share}


def score_language_model(
    bundle: Bundle,
    data: str,
    *,
    text_column: str,
    documents: DocumentUnit,
    max_length: int | None,
    autocast: AbstractContextManager,
) -> dict[str, Any]:
    """Loss per token, perplexity and bits per byte of a corpus, in packed windows."""
    length = checked_length(bundle, max_length)
    settings = ReadSettings(documents=documents, text_column=text_column)
    objective = make_objective(bundle.objective, bundle.tokenizer, bundle.masking)
    store = cached_store([data], settings, bundle.tokenizer, side=objective.sides)
    unknown = num_tokens_equal(store, bundle.tokenizer.unk_id)
    if unknown >= max(1, LARGE_UNKNOWN * store.num_tokens):
        log.warning(
            "%.1f %% of the tokens are unknown to the tokenizer. Each is scored as one easy token, so the loss and the "
            "bits per byte are too low and cannot be compared with those of another text or tokenizer.",
            100 * unknown / max(1, store.num_tokens),
        )
    rows = objective.rows(store, np.arange(store.num_documents), max_length=length, layout="packed")
    if not (scored := scored_parts(objective, rows)):
        raise InputError(f"There is no loss on {data}: none of its {rows.num_tokens} tokens is masked. Give more text.")
    if len(scored) < len(objective.held_out_parts()):
        log.warning("The loss on %s is causal only: none of its %d tokens is masked.", data, rows.num_tokens)
    num_bytes = scored_bytes(rows, bundle.tokenizer)
    metrics = held_out_metrics(bundle.model, objective, rows, num_bytes=num_bytes, autocast=autocast)
    return {**metrics, "num_tokens": rows.num_tokens, "num_documents": store.num_documents, "num_bytes": num_bytes}


def checked_length(bundle: Bundle, max_length: int | None) -> int:
    """The length limit that applies; a limit longer than the base can read is an error."""
    if max_length is not None and not 2 <= max_length <= bundle.max_length:
        raise SettingError(f"max_length is {max_length}, but this base reads 2 to {bundle.max_length} tokens.")
    return max_length or bundle.max_length
