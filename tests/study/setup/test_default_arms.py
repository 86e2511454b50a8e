"""The arms of a study that names none depend on the corpus and on the installed base."""

from pathlib import Path
from typing import Any

import pytest

from boxed import Box, tiny_base
from headswap.core.settings import load_recipe
from headswap.study.setup.config import StudyRecipe
from headswap.study.setup.default_arms import with_default_arms
from headswap.tokens.tokenizer import Tokenizer


@pytest.fixture
def base(box: Box, tokenizer: Tokenizer, tmp_path: Path) -> Path:
    folder = tiny_base(tmp_path / "made", tokenizer)
    box.offer("reviews-en-2", str(folder))
    return folder


def arms_of(**study: Any) -> tuple[str, ...] | None:
    return with_default_arms(load_recipe(StudyRecipe, None, {"study": study})).study.arms


def test_with_a_corpus_and_an_installed_base_the_base_is_adapted(base: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert arms_of(corpus=("texts.txt",)) == ("majority", "tfidf", "lsa", "scratch", "pretrained", "adapted")
    assert "Arms: majority, tfidf, lsa, scratch, pretrained, adapted (--arms selects others)." in caplog.text


def test_without_a_corpus_the_base_is_adapted_to_the_training_texts(
    base: Path, caplog: pytest.LogCaptureFixture
) -> None:
    assert arms_of() == ("majority", "tfidf", "scratch", "adapted")
    assert "The arms lsa and pretrained are left out: there is no corpus" in caplog.text
    assert "The arm adapted reads the training texts only" in caplog.text


@pytest.mark.usefixtures("box")
def test_without_an_installed_base_nothing_is_adapted(caplog: pytest.LogCaptureFixture) -> None:
    assert arms_of(corpus=("texts.txt",)) == ("majority", "tfidf", "lsa", "scratch", "pretrained")
    assert "The arm adapted is left out: box:reviews-en-2 cannot be used" in caplog.text


def test_a_base_that_reads_fewer_tokens_or_is_damaged_is_left_out(base: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert "adapted" not in (arms_of(corpus=("texts.txt",), max_length=100_000) or ())
    assert "max_length is 100000, and box:reviews-en-2 reads at most" in caplog.text
    (base / "README.md").write_text("mine")
    assert "adapted" not in (arms_of(corpus=("texts.txt",)) or ())


def test_named_arms_are_kept(base: Path) -> None:
    assert arms_of(corpus=("texts.txt",), arms="tfidf,scratch") == ("tfidf", "scratch")
