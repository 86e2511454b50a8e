"""Prediction with a fine-tuned bundle: one prediction per input, in input order."""

import logging
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import torch

from headswap.bundle.bundle import Bundle
from headswap.core.errors import InputError, counted
from headswap.inference.abstain import check_limit, with_abstentions
from headswap.inference.outputs import outputs_of
from headswap.tasks.choose import task_of
from headswap.tasks.predictions import Prediction
from headswap.tasks.task import length_of, with_state

log = logging.getLogger("headswap")
NUM_COMPARED = 32


def predict_texts(
    bundle: Bundle,
    texts: Sequence[Any],
    *,
    max_length: int | None = None,
    precision: Literal["fp32", "bf16"] = "fp32",
    abstain_below: float | None = None,
) -> list[Prediction]:
    """One prediction per input; the inputs are texts, pairs, sentences or questions, as the task reads them.

    A classifier does not answer texts whose highest probability is below `abstain_below`. With bf16 the change of
    the outputs is measured on the first inputs and logged.
    """
    task = task_of(bundle)
    check_limit(bundle, abstain_below)
    if isinstance(texts, str):
        raise InputError("predict takes a list of texts, not one string. Put it in a list: [text].")
    if not len(texts):
        return []
    if max_length is not None:
        bundle = with_state(bundle, max_length=max_length)
    encoded = task.encode_inputs(task.inputs(texts, bundle), bundle)
    if encoded.num_truncated:
        log.warning(
            "%.1f %% of the tokens were cut off: the model reads at most %d per text.",
            100 * encoded.truncated_share, length_of(bundle),
        )  # fmt: skip
    for note in encoded.notes:
        log.info("Input: %s.", note)
    if precision == "fp32":
        found = task.predictions(outputs_of(bundle.model, encoded.rows), encoded, bundle)
        return with_abstentions(found, abstain_below)
    half = torch.autocast(bundle.model.device.type, dtype=torch.bfloat16)
    outputs = outputs_of(bundle.model, encoded.rows, autocast=half)
    log_bf16_difference(outputs, outputs_of(bundle.model, encoded.rows[:NUM_COMPARED]))
    return with_abstentions(task.predictions(outputs, encoded, bundle), abstain_below)


def log_bf16_difference(half: Sequence[np.ndarray], full: Sequence[np.ndarray]) -> None:
    """Log how much bf16 changed the outputs, on the rows that were also scored in fp32."""
    pairs = list(zip(half, full, strict=False))
    gap = max(float(np.abs(one - other).max(initial=0.0)) for one, other in pairs)
    changed = sum(not np.array_equal(one.argmax(-1), other.argmax(-1)) for one, other in pairs)
    log.info(
        "bf16 compared with fp32 on the first %s: raw outputs differ by at most %.2g, the highest output in %d.",
        counted(len(pairs), "sequence"), gap, changed,
    )  # fmt: skip
