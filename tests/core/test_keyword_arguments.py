"""Keyword arguments become settings."""

from pathlib import Path

import pytest

import headswap as hs
from headswap.core.errors import HeadswapError


def test_a_wrong_keyword_is_refused_with_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(HeadswapError, match=r"lr is not a setting\. Did you mean 'learning_rate'"):
        hs.pretrain("corpus.txt", out=tmp_path / "run", lr=1e-4)  # type: ignore[call-arg]
    with pytest.raises(HeadswapError, match=r"learning_rat is not a setting\. Did you mean 'learning_rate'"):
        hs.pretrain("corpus.txt", out=tmp_path / "run", learning_rat=1e-4)  # type: ignore[call-arg]
