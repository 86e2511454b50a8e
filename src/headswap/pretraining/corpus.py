"""A tokenised corpus in pre-training: batches of training rows, held-out rows, and the unigram entropy."""

import logging
import math
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from headswap.batches.batch import Batch
from headswap.batches.order import rows_of_step, shuffled, steps_per_epoch
from headswap.batches.sentence_pairs import NoPairsError
from headswap.core.random_streams import Draws
from headswap.inference.language_model import scored_parts
from headswap.objectives.objective import PretrainingObjective, RowSource
from headswap.pretraining.config import PretrainTraining
from headswap.tokens.store import TokenStore
from headswap.tokens.tokenizer import Tokenizer

log = logging.getLogger("headswap")
MOST_HELD_OUT_TOKENS = 50_000
LARGE_SHARE = 0.75  # of the tokens; held-out documents with more than that are warned of
COUNTED_AT_ONCE = 1 << 20  # tokens; counting converts them to 8 bytes each


@dataclass(frozen=True)
class RowBatches:
    """Batches of pre-training rows as a pure function of the step."""

    rows: RowSource
    objective: PretrainingObjective
    batch_size: int
    seed: int
    total_steps: int | None = None
    """Length of the run, for masks that change during it; None in a speed test, which measures the first step."""

    def micro_batches(self, step: int, *, count: int) -> list[Batch]:
        """The rows of a step, split into at most `count` micro-batches."""
        rows = rows_of_step(step, num_rows=len(self.rows), batch_size=self.batch_size, seed=self.seed)
        progress = step / max(1, self.total_steps - 1) if self.total_steps else 0.0
        draws = Draws(self.seed, "mask", step, progress=progress)
        parts = [part for part in np.array_split(rows, count) if len(part)]
        return [self.objective.make_batch(self.rows.pieces_of(part, draws), draws) for part in parts]


class CorpusParts:
    """The training rows and the held-out rows of a corpus, in the form that an objective needs."""

    def __init__(
        self, store: TokenStore, objective: PretrainingObjective, settings: PretrainTraining, *, max_length: int
    ) -> None:
        self.store, self.objective, self.settings, self.max_length = store, objective, settings, max_length
        documents, held_out = split_documents(store, settings.held_out_fraction)
        if not len(held_out):
            log.warning("There is no held-out loss: the corpus has too few documents, or held_out_fraction is 0.")
        try:
            self.rows = self.rows_of(documents)
            self.held_out = self.rows_of(held_out) if len(held_out) else None
        except NoPairsError:
            if not len(held_out):
                raise
            self.rows, self.held_out = self.rows_of(np.arange(store.num_documents)), None
            log.warning(
                "There is no held-out loss, and all documents are trained on: of the documents to hold out (%d), or "
                "of the others, too few have pairs of sentences. Use more documents, or a larger --held-out-fraction.",
                len(held_out),
            )
        self._check_targets()
        if self.held_out:
            self._warn_of_large_part(held_out)
            self._warn_of_duplicates(documents, held_out)

    def _check_targets(self) -> None:
        """Warn if no token of the held-out rows is masked; drop the rows if they then have no target at all."""
        if not self.held_out:
            return
        scored = scored_parts(self.objective, self.held_out)
        if len(scored) == len(self.objective.held_out_parts()):
            return
        log.warning(
            "%s: none of the %d held-out tokens is masked. Use a larger --held-out-fraction, or more documents.",
            "The held-out loss is causal only" if scored else "There is no held-out loss", self.held_out.num_tokens,
        )  # fmt: skip
        if not scored:
            self.held_out = None

    def _warn_of_duplicates(self, documents: np.ndarray, held_out: np.ndarray) -> None:
        if num := num_seen_in_training(self.store, documents, held_out):
            log.warning(
                "%d of the %d held-out documents are also in the training part (the corpus has duplicates), so the "
                "held-out loss is too low.", num, len(held_out),
            )  # fmt: skip

    def _warn_of_large_part(self, held_out: np.ndarray) -> None:
        """Warn of a held-out part that is larger than the settings promise, or that leaves little to train on."""
        lengths, all_tokens = np.diff(np.asarray(self.store.offsets, dtype=np.int64)), self.store.num_tokens
        num_tokens = int(lengths[held_out].sum())
        if num_tokens > min(MOST_HELD_OUT_TOKENS, LARGE_SHARE * all_tokens):
            log.warning(
                "%s of the %s tokens of the corpus are held out and not trained on, because whole documents are held "
                "out and these are long. Divide the corpus into shorter documents (--documents), or set "
                "--held-out-fraction 0.", f"{num_tokens:,}", f"{all_tokens:,}",
            )  # fmt: skip

    @property
    def batch_size(self) -> int:
        """Rows per step."""
        return self.settings.batch_size

    @property
    def steps_per_epoch(self) -> int:
        """Steps in which every training row is used once."""
        return steps_per_epoch(len(self.rows), self.batch_size)

    def batches(self, total_steps: int | None = None) -> RowBatches:
        """The batches of training rows."""
        return RowBatches(self.rows, self.objective, self.batch_size, self.settings.seed, total_steps)

    def reference_rows(self, store: TokenStore) -> RowSource:
        """Rows of another token store to be scored: of a held-out part of it, or of all documents if that has none."""
        _, chosen = split_documents(store, 0.5)  # the limit of held-out tokens applies here too
        if len(chosen):
            with suppress(NoPairsError):
                return self.rows_of(chosen, store)
        return self.rows_of(np.arange(store.num_documents), store)

    def rows_of(self, documents: np.ndarray, store: TokenStore | None = None) -> RowSource:
        """Rows of some documents of this corpus, or of another token store."""
        layout = self.settings.layout
        return self.objective.rows(store or self.store, documents, max_length=self.max_length, layout=layout)


def split_documents(store: TokenStore, fraction: float) -> tuple[np.ndarray, np.ndarray]:
    """(training, held-out) documents. The split does not depend on the seed, so that runs can be compared.

    The held-out documents are the first of a shuffled order, from the first one that has at most
    `MOST_HELD_OUT_TOKENS`; if all have more, the shortest one is held out.
    """
    size = store.num_documents
    wanted = min(size // 2, math.ceil(size * fraction)) if fraction else 0
    is_held_out = np.zeros(size, dtype=bool)
    if wanted:
        order = shuffled(np.arange(size), size, 0, "held-out")
        lengths = np.diff(np.asarray(store.offsets, dtype=np.int64))[order]
        fitting = lengths <= MOST_HELD_OUT_TOKENS
        begin = int(fitting.argmax() if fitting.any() else lengths.argmin())
        tokens = np.cumsum(lengths[begin : begin + wanted])
        is_held_out[order[begin : begin + max(1, int(np.searchsorted(tokens, MOST_HELD_OUT_TOKENS)))]] = True
    return np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)


def num_seen_in_training(store: TokenStore, train: np.ndarray, held_out: np.ndarray) -> int:
    """How many held-out documents have an exact copy in the training part."""
    offsets = np.asarray(store.offsets, dtype=np.int64)
    lengths, first_ids = np.diff(offsets), store.ids[offsets[:-1].clip(max=store.num_tokens - 1)]
    for feature in (lengths, first_ids):
        train = train[np.isin(feature[train], feature[held_out])]  # only these are compared in full

    def content(document: int) -> bytes:
        return store.ids[offsets[document] : offsets[document + 1]].tobytes()

    known = {content(document) for document in train}
    return sum(content(document) in known for document in held_out)


def unigram_entropy(store: TokenStore, tokenizer: Tokenizer) -> float:
    """Entropy of the token frequencies in nats: the loss of a model that knows nothing but these frequencies."""
    counts = np.zeros(tokenizer.vocab_size, dtype=np.int64)
    for start in range(0, store.num_tokens, COUNTED_AT_ONCE):
        counts += np.bincount(store.ids[start : start + COUNTED_AT_ONCE], minlength=tokenizer.vocab_size)
    counts[tokenizer.eos_id] += store.num_documents
    share = counts[counts > 0] / counts.sum()
    return float(-(share * np.log(share)).sum())
