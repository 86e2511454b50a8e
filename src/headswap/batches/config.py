"""Settings of masking and of long texts. Free of torch."""

from typing import Annotated, Literal

from pydantic import Field

from headswap.core.errors import SettingError
from headswap.core.settings import Settings

Long = Literal["truncate", "head+tail", "windows"]
Probability = Annotated[float, Field(ge=0, le=1)]


class MaskingSettings(Settings):
    """What a masked objective hides from the model."""

    mlm_probability: Annotated[float, Field(gt=0, lt=1)] = 0.15
    """Share of the tokens that is to be predicted; special tokens are never chosen."""
    mask_unit: Literal["token", "word", "span"] = "token"
    """What is chosen as a whole: a token, a word, or a span of words (3.8 on average)."""
    mask_replace_prob: Probability = 0.8
    """Share of the chosen units that <mask> takes the place of."""
    random_replace_prob: Probability = 0.1
    """Share of the chosen units that random tokens take the place of; the rest stays as it is."""

    def model_post_init(self, _context: object) -> None:
        """The two shares cannot be more than everything."""
        if self.mask_replace_prob + self.random_replace_prob > 1 + 1e-9:
            raise SettingError(
                f"mask_replace_prob {self.mask_replace_prob:g} and random_replace_prob {self.random_replace_prob:g} "
                "are together more than 1."
            )
