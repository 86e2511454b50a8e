"""Settings of generation. Free of torch."""

from typing import Annotated

from pydantic import Field

from headswap.core.errors import SettingError
from headswap.core.settings import Settings


class SamplingSettings(Settings):
    """How the next token is chosen."""

    max_new_tokens: Annotated[int, Field(ge=1)] = 50
    """Maximum number of tokens to generate. Generation ends earlier at <eos>, the end token."""
    temperature: Annotated[float, Field(ge=0)] = 0.0
    """0 chooses the most probable token (greedy); higher values give more varied texts."""
    top_k: Annotated[int, Field(ge=1)] | None = None
    """Sample only from the k most probable tokens. Needs a temperature above 0."""
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    """Sample only from the most probable tokens whose total probability reaches p. Needs a temperature above 0."""
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 42
    """Random seed of sampling."""

    def model_post_init(self, _context: object) -> None:
        """Greedy decoding excludes sampling settings."""
        if self.temperature == 0 and (self.top_k is not None or self.top_p is not None):
            raise SettingError(
                "top_k and top_p need a temperature above 0: at 0 the most probable token is always chosen."
            )
