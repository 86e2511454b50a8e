"""Prediction with a fine-tuned bundle: one prediction per input, in input order.

Inputs are encoded and scored in chunks, so that memory does not grow with their number.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal

import numpy as np
import torch

from headswap.batches.labelled_rows import EncodedSet, Note
from headswap.bundle.bundle import Bundle
from headswap.core.errors import InputError, counted
from headswap.data.records import whole_text
from headswap.inference.abstain import check_limit, with_abstentions
from headswap.inference.average import averaged
from headswap.inference.outputs import outputs_of, warn_of_truncation
from headswap.tasks.choose import task_of
from headswap.tasks.predictions import Prediction
from headswap.tasks.task import length_of, with_state

log = logging.getLogger("headswap")
NUM_COMPARED = 32
CHUNK_INPUTS, CHUNK_CHARACTERS = 1 << 16, 1 << 26
"""Inputs that are scored together; batches are made of inputs of similar length, so a chunk has many batches."""
Precision = Literal["fp32", "bf16"]


def predict_texts(
    bundle: Bundle,
    texts: Sequence[Any],
    *,
    max_length: int | None = None,
    precision: Precision = "fp32",
    abstain_below: float | None = None,
    others: Sequence[Bundle] = (),
) -> list[Prediction]:
    """One prediction per input; the inputs are texts, pairs, sentences or questions, as the task reads them.

    A classifier does not answer texts whose highest probability is below `abstain_below`. With bf16 the change of
    the outputs is measured on the first inputs and logged. The probabilities of a classifier are averaged with those of
    `others`.
    """
    task = task_of(bundle)
    check_limit(bundle, abstain_below)
    if isinstance(texts, str):
        raise InputError("predict takes a list of texts, not one string. Put it in a list: [text].")
    if max_length is not None:
        bundle, *others = [with_state(one, max_length=max_length) for one in (bundle, *others)]
    return list(_predictions(bundle, task.inputs(texts, bundle), precision, abstain_below, others))


def predict_stream(
    bundle: Bundle,
    inputs: Iterable[Any],
    *,
    precision: Precision = "fp32",
    abstain_below: float | None = None,
    others: Sequence[Bundle] = (),
) -> Iterator[Prediction]:
    """The same for inputs that may be read while they are scored; then the caller has checked that none is blank."""
    if isinstance(inputs, Sequence):
        found = predict_texts(bundle, inputs, precision=precision, abstain_below=abstain_below, others=others)
        return iter(found)
    task = task_of(bundle)
    check_limit(bundle, abstain_below)
    examples = (example for given in inputs for example in task.inputs([given], bundle))
    return _predictions(bundle, examples, precision, abstain_below, others)


def _predictions(
    bundle: Bundle, examples: Iterable[Any], precision: Precision, abstain_below: float | None, others: Sequence[Bundle]
) -> Iterator[Prediction]:
    task, summary, is_first = task_of(bundle), _Summary(), True
    half = torch.autocast(bundle.model.device.type, dtype=torch.bfloat16) if precision == "bf16" else None
    for chunk in _chunks(examples):
        if others:
            together = averaged([bundle, *others], chunk, autocast=half)
            if half is not None and is_first:
                full = averaged([bundle, *others], chunk[:NUM_COMPARED])
                log_bf16_difference(together.outputs, full.outputs)
            is_first = False
            summary.add(together.encoded)
            answers = task.predictions(together.outputs, together.encoded, together.bundle)
            yield from with_abstentions(answers, abstain_below)
            continue
        encoded = task.encode_inputs(chunk, bundle)
        outputs = outputs_of(bundle.model, encoded.rows, autocast=half)
        if half is not None and is_first:
            log_bf16_difference(outputs, outputs_of(bundle.model, encoded.rows[:NUM_COMPARED]))
        is_first = False
        summary.add(encoded)
        yield from with_abstentions(task.predictions(outputs, encoded, bundle), abstain_below)
    summary.log(length_of(bundle))


def _chunks(examples: Iterable[Any]) -> Iterator[list[Any]]:
    chunk: list[Any] = []
    num_characters = 0
    for example in examples:
        chunk.append(example)
        num_characters += len(whole_text(example))
        if len(chunk) >= CHUNK_INPUTS or num_characters >= CHUNK_CHARACTERS:
            yield chunk
            chunk, num_characters = [], 0
    if chunk:
        yield chunk


class _Summary:
    """What is logged about all inputs: the share of tokens that was cut off, and the notes of the task."""

    def __init__(self) -> None:
        self.num_tokens = self.num_truncated = 0
        self.notes: Counter[tuple[str, str]] = Counter()

    def add(self, encoded: EncodedSet) -> None:
        """Add the inputs of a chunk."""
        self.num_tokens += encoded.num_tokens
        self.num_truncated += encoded.num_truncated
        for note in encoded.notes:
            self.notes[note.noun, note.remark] += note.number

    def log(self, max_length: int) -> None:
        """Log it."""
        if self.num_truncated:
            warn_of_truncation(self.num_truncated, self.num_tokens, max_length)
        for (noun, remark), number in self.notes.items():
            log.info("Input: %s.", Note(number, noun, remark))


def log_bf16_difference(half: Sequence[np.ndarray], full: Sequence[np.ndarray]) -> None:
    """Log how much bf16 changed the outputs, on the rows that were also scored in fp32."""
    pairs = list(zip(half, full, strict=False))
    gap = max(float(np.abs(one - other).max(initial=0.0)) for one, other in pairs)
    changed = sum(not np.array_equal(one.argmax(-1), other.argmax(-1)) for one, other in pairs)
    log.info(
        "bf16 compared with fp32 on the first %s: outputs differ by at most %.2g; in %d another one is the highest.",
        counted(len(pairs), "sequence"), gap, changed,
    )  # fmt: skip
