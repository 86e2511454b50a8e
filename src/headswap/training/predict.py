"""Asking a fine-tuned bundle: inputs in, answers in input order."""

import logging
from collections.abc import Sequence
from typing import Any

from headswap.bundle import Bundle
from headswap.core.errors import InputError
from headswap.training.answers import Answer
from headswap.training.evaluate import outputs_of
from headswap.training.tasks.table import task_of
from headswap.training.tasks.task import length_of, with_state

log = logging.getLogger("headswap")


def predict_texts(bundle: Bundle, texts: Sequence[Any], *, max_length: int | None = None) -> list[Answer]:
    """What the model says of each input: texts, pairs, sentences or questions, as its task wants them."""
    task = task_of(bundle)
    if isinstance(texts, str):
        raise InputError("predict takes a list of texts, not one string. Put it in a list: [text].")
    if max_length is not None:
        bundle = with_state(bundle, max_length=max_length)
    encoded = task.layout(task.inputs(texts, bundle), bundle)
    if encoded.num_truncated:
        log.warning(
            "%.1f %% of the tokens were cut off: the model reads at most %d a text.",
            100 * encoded.truncated_share, length_of(bundle),
        )  # fmt: skip
    for note in encoded.notes:
        log.info("Of the input: %s.", note)
    return task.answers(outputs_of(bundle.model, encoded.rows), encoded, bundle)
