"""Settings of masking and of long texts. Does not import torch."""

from typing import Annotated, Any, Literal

from pydantic import Field

from headswap.core.errors import SettingError
from headswap.core.settings import Settings

Long = Literal["truncate", "head+tail", "windows"]
MaskUnit = Literal["token", "ngram", "word", "span"]
Probability = Annotated[float, Field(ge=0, le=1)]


class MaskingSettings(Settings):
    """How a masked objective chooses and replaces tokens."""

    mlm_probability: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """Share of the tokens that are chosen to be predicted; special tokens are never chosen."""
    mlm_probability_start: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Share of the tokens that are chosen in the first step; it changes linearly to mlm_probability in the last step.
    Default: mlm_probability; with causal+masked twice mlm_probability, at most 0.9."""
    mask_unit: MaskUnit | None = None
    """Unit that is masked as a whole: a token, an ngram (1 to 3 tokens), a word, or a span of words (3.8 words on
    average). Default: token; with causal+masked ngram."""
    mask_replace_prob: Probability = 0.8
    """Share of the chosen units that are replaced by <mask>."""
    random_replace_prob: Probability = 0.1
    """Share of the chosen units that are replaced by random tokens. The remaining chosen units stay unchanged."""
    masked_share: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Share of the steps that are masked with the objective causal+masked; the others are causal. Default: 0.5."""

    def model_post_init(self, _context: object) -> None:
        """Check that the two shares add up to at most 1."""
        if self.mask_replace_prob + self.random_replace_prob > 1 + 1e-9:
            raise SettingError(
                f"mask_replace_prob {self.mask_replace_prob:g} and random_replace_prob {self.random_replace_prob:g} "
                "are together more than 1. Lower one of them."
            )

    def with_defaults(self, **values: Any) -> "MaskingSettings":
        """A copy in which these values replace the settings that are open."""
        return self.changed(**{name: value for name, value in values.items() if getattr(self, name) is None})

    def probability_at(self, progress: float) -> float:
        """Share of the tokens that are chosen when this share of the run is done."""
        first = self.mlm_probability if self.mlm_probability_start is None else self.mlm_probability_start
        return first + (self.mlm_probability - first) * progress
