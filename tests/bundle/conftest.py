"""Fixtures of the bundle tests: a small classifier on disk."""

from pathlib import Path

import pytest

from bundles import make_bundle
from headswap.tokens.tokenizer import Tokenizer


@pytest.fixture
def saved(tokenizer: Tokenizer, tmp_path: Path) -> Path:
    """A classifier on disk."""
    make_bundle(tokenizer).save(tmp_path / "bundle")
    return tmp_path / "bundle"
