"""The objective causal+masked: one base that is trained with causal and with masked batches (GPT-BERT).

Both kinds of batches predict a token at the position before it, so one head serves both. A step is masked or causal as
a whole; which one is drawn from (seed, step), with `masked_share` as the probability of masked. In a masked step
attention is bidirectional and only the positions before masked tokens are projected to the vocabulary.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from headswap.batches.batch import Batch, joined_batch
from headswap.batches.config import MaskingSettings
from headswap.batches.windows import Pieces
from headswap.core.random_streams import Draws
from headswap.objectives.causal import CausalObjective
from headswap.objectives.masked import MaskedObjective
from headswap.objectives.objective import Part
from headswap.tokens.tokenizer import Tokenizer

MASKED_SHARE = 0.5
START_FACTOR, HIGHEST_START = 2.0, 0.9
"""The share of masked tokens in the first step: so many times that of the last step, but not more."""


class ShiftedMaskedObjective(MaskedObjective):
    """Predicts masked tokens from both sides, each at the position before it."""

    predicts_next = True

    def make_batch(self, pieces: Pieces, draws: Draws) -> Batch:
        """The tokens of each piece, some of them masked; the first token of a piece has no position before it."""
        masked = self.masked_tokens(pieces, draws)
        is_first = np.isin(masked.target_index, np.cumsum(pieces.lengths) - pieces.lengths)
        masked.ids[masked.target_index[is_first]] = masked.target_value[is_first]
        batch = joined_batch(
            masked.ids,
            pieces.lengths,
            target_index=masked.target_index[~is_first] - 1,
            target_value=masked.target_value[~is_first],
            documents=pieces.documents,
        )
        return replace(batch, is_causal=False)


class CausalStepObjective(CausalObjective):
    """The causal objective for a base whose attention is bidirectional in other batches."""

    def make_batch(self, pieces: Pieces, draws: Draws) -> Batch:
        """As causal, with the direction in the batch."""
        return replace(super().make_batch(pieces, draws), is_causal=True)


class CausalMaskedObjective(ShiftedMaskedObjective):
    """Predicts next tokens in some steps and masked tokens in the others; the base can generate text and fill masks."""

    def __init__(self, tokenizer: Tokenizer, masking: MaskingSettings) -> None:
        super().__init__(tokenizer, masking)
        assert masking.masked_share is not None
        self.masked_share = masking.masked_share
        self.causal, self.masked = CausalStepObjective(tokenizer, masking), ShiftedMaskedObjective(tokenizer, masking)

    @classmethod
    def masking_of(cls, masking: MaskingSettings) -> MaskingSettings:
        """GPT-BERT's masking: n-grams of 1 to 3 tokens, and twice as many masked tokens at the start."""
        first = max(masking.mlm_probability, min(START_FACTOR * masking.mlm_probability, HIGHEST_START))
        return masking.with_defaults(mask_unit="ngram", mlm_probability_start=first, masked_share=MASKED_SHARE)

    def make_batch(self, pieces: Pieces, draws: Draws) -> Batch:
        """A masked or a causal batch: the same kind for all micro-batches of a step."""
        part = self.masked if draws.once("kind of step") < self.masked_share else self.causal
        return part.make_batch(pieces, draws)

    def held_out_parts(self) -> Mapping[str, Part]:
        """Both parts; the held-out loss is their mean, weighted as in training."""
        return {"masked_": Part(self.masked, self.masked_share), "causal_": Part(self.causal, 1 - self.masked_share)}
