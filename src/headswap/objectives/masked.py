"""The masked objective: predicting masked tokens from both sides.

Only the vectors of the masked tokens are projected to the vocabulary. batches/masking.py chooses the tokens.

Shapes: N tokens, T targets, B sequences, D hidden width.
"""

import numpy as np

from headswap.batches.batch import Batch, joined_batch
from headswap.batches.config import MaskingSettings
from headswap.batches.masking import CorpusTokens, MaskedTokens, Masker
from headswap.batches.windows import Layout, Pieces, Rows
from headswap.core.random_streams import Draws
from headswap.model.shape import Direction
from headswap.objectives.objective import TokenObjective
from headswap.tokens.store import TokenStore
from headswap.tokens.tokenizer import Tokenizer


class MaskedObjective(TokenObjective):
    """Predicts masked tokens from both sides. Needs any text, and more of it than `causal`; the base can fill masks."""

    direction: Direction = "bidirectional"
    is_likelihood = False
    masks_tokens = True
    predicts_next = False

    def __init__(self, tokenizer: Tokenizer, masking: MaskingSettings) -> None:
        self.tokenizer, self.mask = tokenizer, Masker(tokenizer, masking)
        self.with_words = masking.mask_unit in ("word", "span")
        self.sides: tuple[str, ...] = ("word_starts",) if self.with_words else ()

    def rows(self, store: TokenStore, documents: np.ndarray, *, max_length: int, layout: Layout) -> Rows:
        """Windows of the corpus, or one row per document."""
        sos, eos = self.tokenizer.sos_id, self.tokenizer.eos_id
        return Rows(
            store, documents, max_length=max_length, layout=layout, sos_id=sos, eos_id=eos, with_words=self.with_words
        )

    def make_batch(self, pieces: Pieces, draws: Draws) -> Batch:
        """The tokens of each piece, some of them masked; targets are the masked tokens."""
        masked = self.masked_tokens(pieces, draws)
        return joined_batch(
            masked.ids,
            pieces.lengths,
            target_index=masked.target_index,
            target_value=masked.target_value,
            documents=pieces.documents,
        )

    def masked_tokens(self, pieces: Pieces, draws: Draws) -> MaskedTokens:
        """The tokens of each piece after masking, and the masked tokens."""
        firsts = np.cumsum(pieces.lengths) - pieces.lengths
        tokens = CorpusTokens(
            ids=pieces.ids,
            documents=np.repeat(pieces.documents, pieces.lengths),
            positions=np.arange(len(pieces.ids)) + np.repeat(pieces.starts - firsts, pieces.lengths),
            word_starts=pieces.word_starts,
            sequence_starts=firsts,
        )
        return self.mask(tokens, draws)
