"""A new objective: predict the token that is read, which is learnt within a few steps."""

from dataclasses import replace

from headswap.batches.batch import Batch
from headswap.batches.windows import Pieces
from headswap.core.random_streams import Draws
from headswap.objectives.causal import CausalObjective


class SameTokenObjective(CausalObjective):
    """Predicts each token from itself."""

    def make_batch(self, pieces: Pieces, draws: Draws) -> Batch:
        return super().make_batch(replace(pieces, next_ids=pieces.ids), draws)
