"""The causal objective: predicting the next token."""

import numpy as np

from headswap.batches.batch import Batch, joined_batch
from headswap.batches.config import MaskingSettings
from headswap.batches.windows import Layout, Pieces, Rows
from headswap.core.random_streams import Draws
from headswap.model.shape import Direction
from headswap.objectives.objective import TokenObjective
from headswap.tokens.store import TokenStore
from headswap.tokens.tokenizer import Tokenizer


class CausalObjective(TokenObjective):
    """Predicts each token from the tokens before it. Needs any text; the base can generate text."""

    direction: Direction = "causal"
    sides: tuple[str, ...] = ()
    is_likelihood = True
    masks_tokens = False
    predicts_next = True

    def __init__(self, tokenizer: Tokenizer, masking: MaskingSettings) -> None:
        del masking  # no token is masked
        self.tokenizer = tokenizer

    def rows(self, store: TokenStore, documents: np.ndarray, *, max_length: int, layout: Layout) -> Rows:
        """Windows of the corpus, or one row per document."""
        sos, eos = self.tokenizer.sos_id, self.tokenizer.eos_id
        return Rows(store, documents, max_length=max_length, layout=layout, sos_id=sos, eos_id=eos)

    def make_batch(self, pieces: Pieces, draws: Draws) -> Batch:
        """Inputs are the tokens of each piece; targets are the same tokens shifted by one."""
        del draws  # nothing is random
        return joined_batch(
            pieces.ids,
            pieces.lengths,
            target_index=np.arange(len(pieces.ids)),
            target_value=pieces.next_ids,
            documents=pieces.documents,
        )
