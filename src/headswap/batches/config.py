"""Settings of masking and of long texts. Does not import torch."""

from typing import Annotated, Literal

from pydantic import Field

from headswap.core.errors import SettingError
from headswap.core.settings import Settings

Long = Literal["truncate", "head+tail", "windows"]
Probability = Annotated[float, Field(ge=0, le=1)]


class MaskingSettings(Settings):
    """How a masked objective chooses and replaces tokens."""

    mlm_probability: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """Share of the tokens that are chosen to be predicted; special tokens are never chosen."""
    mask_unit: Literal["token", "word", "span"] = "token"
    """Unit that is masked as a whole: a token, a word, or a span of words (3.8 words on average)."""
    mask_replace_prob: Probability = 0.8
    """Share of the chosen units that are replaced by <mask>."""
    random_replace_prob: Probability = 0.1
    """Share of the chosen units that are replaced by random tokens. The remaining chosen units stay unchanged."""

    def model_post_init(self, _context: object) -> None:
        """Check that the two shares add up to at most 1."""
        if self.mask_replace_prob + self.random_replace_prob > 1 + 1e-9:
            raise SettingError(
                f"mask_replace_prob {self.mask_replace_prob:g} and random_replace_prob {self.random_replace_prob:g} "
                "are together more than 1. Lower one of them."
            )
