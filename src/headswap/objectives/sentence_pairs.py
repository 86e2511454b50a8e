"""The masked objective plus one label per pair of segments: next-sentence and sentence-order prediction.

Shapes: N tokens, T targets, B sequences, D hidden width.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from headswap.batches.batch import Batch, flat_batch
from headswap.batches.config import MaskingSettings
from headswap.batches.masking import joined_tokens
from headswap.batches.sentence_pairs import Pair, PairKind, PairRows, Segment
from headswap.batches.windows import Layout
from headswap.core.random_streams import Draws
from headswap.model.text_model import TextModel
from headswap.objectives.masked import MaskedObjective
from headswap.objectives.objective import ScoreSums, token_loss_sum
from headswap.tokens.store import TokenStore
from headswap.tokens.tokenizer import Tokenizer


class PairObjective(MaskedObjective):
    """Predicts masked tokens and one label per pair of segments. Needs documents of several sentences."""

    num_segments = 2
    kind: ClassVar[PairKind]
    name: ClassVar[str]
    """How its loss and its accuracy are named."""

    def __init__(self, tokenizer: Tokenizer, masking: MaskingSettings) -> None:
        super().__init__(tokenizer, masking)
        assert tokenizer.sep_id is not None
        self.losses = ("loss", f"{self.name}_loss")
        self.sides = (*self.sides, "sentence_starts")

    def rows(self, store: TokenStore, documents: np.ndarray, *, max_length: int, layout: Layout) -> PairRows:  # type: ignore[override]
        """Chunks of documents, each split into two segments."""
        del layout  # a row is always a pair
        return PairRows(store, documents, max_length=max_length, kind=self.kind, with_words=self.with_words)

    def make_batch(self, pieces: Sequence[Pair], draws: Draws) -> Batch:  # type: ignore[override]
        """`<sos>` first `<sep>` second, with some tokens masked and one label per pair."""
        parts = [part for pair in pieces for part in (pair.first, pair.second)]
        masked = self.mask(joined_tokens([_with_position(part) for part in parts]), draws)
        lengths = [len(part.ids) for part in parts]
        ends = np.cumsum(lengths)
        bodies = np.split(masked.ids, ends[:-1])
        sos, sep = np.array([self.tokenizer.sos_id]), np.array([self.tokenizer.sep_id])
        rows = [np.concatenate((sos, bodies[at], sep, bodies[at + 1])) for at in range(0, len(bodies), 2)]
        segments = np.concatenate(
            [np.repeat([0, 1], (lengths[at] + 2, lengths[at + 1])) for at in range(0, len(bodies), 2)]
        )
        # One special token precedes every segment: <sos> or <sep>.
        shift = np.searchsorted(ends, masked.target_index, side="right") + 1
        return flat_batch(
            rows,
            target_index=masked.target_index + shift,
            target_value=masked.target_value,
            documents=[pair.document for pair in pieces],
            segments=segments,
            pair_target=np.array([pair.is_original for pair in pieces], dtype=np.int64),
        )

    def loss_sum(self, model: TextModel, batch: Batch) -> Tensor:
        """Two sums, over masked tokens and over pairs; the training loop divides each by its number of targets."""
        hidden_ND = model.hidden(batch)
        return torch.stack((token_loss_sum(model, hidden_ND, batch), self._pair_loss(model, hidden_ND, batch)[0]))

    def score_sums(self, model: TextModel, batch: Batch) -> Mapping[str, ScoreSums]:
        """Both losses, and the number of pairs classified correctly (chance: half of them)."""
        hidden_ND = model.hidden(batch)
        tokens = token_loss_sum(model, hidden_ND, batch).item()
        loss, logits_B2 = self._pair_loss(model, hidden_ND, batch)
        assert batch.pair_target_B is not None
        hits, pairs = int((logits_B2.argmax(1) == batch.pair_target_B).sum()), len(batch.lengths)
        return {
            "loss": ScoreSums(tokens, batch.num_targets),
            f"{self.name}_loss": ScoreSums(loss.item(), pairs),
            f"{self.name}_accuracy": ScoreSums(hits, pairs),
        }

    def _pair_loss(self, model: TextModel, hidden_ND: Tensor, batch: Batch) -> tuple[Tensor, Tensor]:
        assert model.pair_head is not None
        assert batch.pair_target_B is not None
        logits_B2 = model.pair_head(hidden_ND, batch)
        logits_B2 = logits_B2 if logits_B2.dtype.itemsize >= 4 else logits_B2.float()
        sequences = slice(len(batch.pair_target_B))  # empty if a process has no rows in this step
        return F.cross_entropy(logits_B2[sequences], batch.pair_target_B, reduction="sum"), logits_B2


class NextSentenceObjective(PairObjective):
    """The label is whether the second segment follows the first."""

    kind, name = "next", "nsp"


class SentenceOrderObjective(PairObjective):
    """The label is whether the two segments are in their original order."""

    kind, name = "order", "sop"


def _with_position(segment: Segment) -> tuple[np.ndarray, int, int, np.ndarray | None]:
    # Position 0 of a document's stream is <sos>, so its first token is at 1, as in a window.
    return segment.ids, segment.document, segment.start + 1, segment.word_starts
