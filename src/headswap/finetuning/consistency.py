"""Unlabelled texts in fine-tuning: which texts, and the check for collapse.

Consistency training can make a model predict one label for everything: such predictions agree perfectly. So after each
epoch the labels that the model predicts for some unlabelled texts are compared with the labels of the training set. If
their entropy is below `LEAST_ENTROPY` of that of the training labels twice in succession, the unlabelled texts are left
out for the rest of the run, with a warning. The decision is a function of the recorded evaluations, so a resumed run
makes the same one.
"""

import hashlib
import heapq
import logging
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headswap.batches.labelled_rows import ExampleBatches, Row
from headswap.batches.token_dropout import TokenDropout
from headswap.batches.unlabelled_rows import RowsChange, ViewBatches
from headswap.core.errors import InputError, SettingError, counted
from headswap.core.random_streams import numpy_stream
from headswap.data.config import ReadSettings
from headswap.data.documents import read_documents
from headswap.data.records import Document, Example, whole_text
from headswap.finetuning.config import ConsistencySettings
from headswap.inference.outputs import outputs_of
from headswap.model.text_model import TextModel
from headswap.tasks.task import Task

log = logging.getLogger("headswap")
MOST_TEXTS = 20_000
"""A random sample of this many unlabelled texts is used."""
NUM_CHECKED = 512
LEAST_ENTROPY = 0.3
MEASURED = "unlabelled_label_entropy"


def check_consistency(settings: ConsistencySettings, task: Task, *, reads_pairs: bool, is_scratch: bool) -> None:
    """Raise for settings without effect, and for tasks without one class per text."""
    if not settings.unlabelled:
        names = [name for name in ConsistencySettings.model_fields if name != "unlabelled"]
        if given := settings.not_default(names):
            raise SettingError(f"{', '.join(given)}: only used with --unlabelled.")
        return
    if not task.one_label_per_text or reads_pairs:
        what = "pairs of texts" if task.one_label_per_text else f"the task {task.name}"
        raise SettingError(f"--unlabelled cannot be used with {what}: it needs one label per single text.")
    if is_scratch and settings.consistency_replacement:
        raise SettingError(
            f"consistency_replacement is {settings.consistency_replacement:g}, but random weights predict "
            "no useful tokens. Remove the setting, or give a base."
        )


def read_unlabelled(sources: Sequence[str], *, text_column: str, seed: int, scored: Iterable[Any]) -> list[Example]:
    """A sample of the texts, in random order, without those that are scored on validation or test."""
    known, num_known = {whole_text(example) for example in scored}, 0

    def unknown() -> Iterator[Document]:
        nonlocal num_known
        for document in read_documents(sources, ReadSettings(text_column=text_column)):
            if document.text in known:
                num_known += 1
            else:
                yield document

    sample = sample_documents(unknown(), seed=seed)
    if num_known:
        log.warning(
            "%s of the unlabelled texts are also in the validation or test set; they are not used.", f"{num_known:,}"
        )
    if not sample:
        raise InputError(f"No unlabelled text is left to train on in {', '.join(sources)}. Give other files.")
    return [Example(document.text, "", document.source, document.line) for document in sample]


def sample_documents(documents: Iterable[Document], *, seed: int) -> list[Document]:
    """A random sample of at most `MOST_TEXTS` documents, in random order."""
    stream = numpy_stream(seed, "unlabelled texts")
    sample: list[tuple[float, int, Document]] = []
    for number, document in enumerate(documents):
        heapq.heappush(sample, (-stream.random(), number, document))
        if len(sample) > MOST_TEXTS:
            heapq.heappop(sample)
    return [document for *_, document in sorted(sample, key=lambda item: item[:2], reverse=True)]


def texts_checksum(examples: Sequence[Example]) -> str:
    """A checksum of the texts and their order."""
    digest = hashlib.sha256()
    for example in examples:
        digest.update(f"{example.text}\x1e".encode())
    return digest.hexdigest()[:32]


def view_batches(
    labelled: ExampleBatches,
    rows: Sequence[Row],
    settings: ConsistencySettings,
    special_ids: frozenset[int],
    *,
    total_steps: int,
    replacements: RowsChange | None = None,
) -> ViewBatches:
    """Batches of the labelled rows and of two views of unlabelled ones."""
    share = settings.consistency_token_dropout
    return ViewBatches(
        labelled,
        rows,
        batch_size=settings.unlabelled_batch_size or 3 * labelled.batch_size,
        change=TokenDropout(share, labelled.seed, special_ids, stream="changed view"),
        weight=settings.consistency_weight,
        ramp_steps=round(settings.consistency_ramp * total_steps),
        replacements=replacements,
    )


@dataclass
class CollapseCheck:
    """Turns consistency training off if the predicted labels collapse."""

    source: ViewBatches
    rows: Sequence[Row]
    training_entropy: float
    low: int = field(default=0, init=False)
    """Evaluations in succession with too low an entropy."""

    @classmethod
    def of(cls, source: ViewBatches, train: Sequence[Row]) -> "CollapseCheck":
        """The check of a run."""
        labels = [int(row.target_value[0]) for row in train]
        return cls(source, source.rows[:NUM_CHECKED], entropy(Counter(labels).values()))

    def measure(self, model: TextModel, autocast: AbstractContextManager) -> dict[str, float]:
        """The entropy of the labels predicted for unlabelled texts, relative to that of the training labels."""
        outputs = np.stack(outputs_of(model, self.rows, autocast=autocast))
        found = entropy(Counter(outputs.argmax(axis=1).tolist()).values())
        return {MEASURED: found / self.training_entropy if self.training_entropy else 1.0}

    def after_evaluation(self, line: Mapping[str, Any]) -> None:
        """Count an evaluation; those before the weight has risen do not count, since the head is still random."""
        if self.source.is_off or MEASURED not in line or line["step"] < max(1, self.source.ramp_steps):
            return
        self.low = self.low + 1 if line[MEASURED] < LEAST_ENTROPY else 0
        if self.low >= 2:
            self.source.is_off = True
            log.warning(
                "Consistency training is turned off at step %d: the model predicts almost only one label for the "
                "unlabelled texts (%s of the entropy of the training labels, twice in succession; at least %g is "
                "required). The rest of the run uses the labelled texts only.",
                line["step"], f"{line[MEASURED]:.2g}", LEAST_ENTROPY,
            )  # fmt: skip

    def result(self) -> dict[str, Any]:
        """The entry of `result.json`."""
        return {"unlabelled": {"rows": len(self.source.rows), "turned_off": self.source.is_off}}

    def log_start(self) -> None:
        """Log how many texts are used, and how."""
        source = self.source
        log.info(
            "Consistency training: %s, %d per step in two views; the weight rises to %g in %s.",
            counted(len(source.rows), "unlabelled text"), min(source.batch_size, len(source.rows)), source.weight,
            counted(source.ramp_steps, "step"),
        )  # fmt: skip


def entropy(counts: Iterable[int]) -> float:
    """The entropy of shares, in nats."""
    numbers = [number for number in counts if number]
    total = sum(numbers)
    return math.fsum(number / total * math.log(total / number) for number in numbers)
