"""What a tokenised corpus gives to pre-training: batches, held-out documents, and the entropy of its tokens."""

import math
from dataclasses import dataclass

import numpy as np

from headswap.core.seeds import Draws
from headswap.model.objectives import PretrainingObjective, RowSource
from headswap.text.batch import Batch
from headswap.text.order import rows_of_step, shuffled
from headswap.text.store import TokenStore
from headswap.text.tokenizer import Tokenizer

MOST_HELD_OUT_TOKENS = 50_000


@dataclass(frozen=True)
class RowBatches:
    """Batches of pre-training rows as a pure function of the step."""

    rows: RowSource
    objective: PretrainingObjective
    batch_size: int
    seed: int

    def micro_batches(self, step: int, *, count: int) -> list[Batch]:
        """The rows of a step, cut into at most `count` parts."""
        rows = rows_of_step(step, num_rows=len(self.rows), batch_size=self.batch_size, seed=self.seed)
        draws = Draws(self.seed, "mask", step)
        parts = [part for part in np.array_split(rows, count) if len(part)]
        return [self.objective.make_batch(self.rows.pieces_of(part, draws), draws) for part in parts]


def split_documents(store: TokenStore, fraction: float) -> tuple[np.ndarray, np.ndarray]:
    """(training, held-out) documents: the same for every seed, so that runs can be compared."""
    size = store.num_documents
    wanted = min(size // 2, math.ceil(size * fraction)) if fraction else 0
    order = shuffled(np.arange(size), size, 0, "held-out")
    offsets = np.asarray(store.offsets, dtype=np.int64)
    tokens = np.cumsum((offsets[1:] - offsets[:-1])[order[:wanted]])
    chosen = order[: max(min(wanted, 1), int(np.searchsorted(tokens, MOST_HELD_OUT_TOKENS)))] if wanted else order[:0]
    is_held_out = np.zeros(size, dtype=bool)
    is_held_out[chosen] = True
    return np.flatnonzero(~is_held_out), np.flatnonzero(is_held_out)


def num_seen_in_training(store: TokenStore, train: np.ndarray, held_out: np.ndarray) -> int:
    """How many held-out documents also stand in the training part, token for token."""
    offsets = np.asarray(store.offsets, dtype=np.int64)
    lengths, first_ids = np.diff(offsets), store.ids[offsets[:-1].clip(max=store.num_tokens - 1)]
    for feature in (lengths, first_ids):
        train = train[np.isin(feature[train], feature[held_out])]  # few are left to be compared whole

    def content(document: int) -> bytes:
        return store.ids[offsets[document] : offsets[document + 1]].tobytes()

    known = {content(document) for document in train}
    return sum(content(document) in known for document in held_out)


def unigram_entropy(store: TokenStore, tokenizer: Tokenizer) -> float:
    """Entropy in nats of the tokens' frequencies: what a model reaches that knows nothing but them."""
    counts = np.zeros(tokenizer.vocab_size, dtype=np.int64)
    for start in range(0, store.num_tokens, 1 << 24):
        counts += np.bincount(store.ids[start : start + (1 << 24)], minlength=tokenizer.vocab_size)
    counts[tokenizer.eos_id] += store.num_documents
    share = counts[counts > 0] / counts.sum()
    return float(-(share * np.log(share)).sum())
