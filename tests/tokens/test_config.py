"""Settings of tokenizers: bounds."""

import pytest

from headswap.core.errors import SettingError
from headswap.core.settings import validate
from headswap.tokens.config import LARGEST_VOCABULARY, TokenizerSettings


def test_a_vocabulary_that_no_memory_holds_is_refused() -> None:
    assert validate(TokenizerSettings, {"vocab_size": LARGEST_VOCABULARY}).vocab_size == LARGEST_VOCABULARY
    with pytest.raises(SettingError, match=r"vocab_size.*less than or equal to 10000000"):
        validate(TokenizerSettings, {"vocab_size": 10**12})
