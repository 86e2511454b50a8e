"""The demo: a study with fixed arms, and one more where the project's own base is installed."""

from pathlib import Path
from typing import Any

import pytest

from boxed import Box, tiny_base
from headswap.cli import study
from headswap.cli.exit_codes import run
from headswap.core.settings import load_recipe
from headswap.study.config import StudyRecipe
from headswap.tokens.tokenizer import Tokenizer

LIVE = ("majority", "tfidf", "scratch", "pretrained")


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The sections of the studies that were asked for; none is run."""
    found: list[dict[str, Any]] = []

    def note(_out: Path, _flags: object, sections: dict[str, Any]) -> int:
        load_recipe(StudyRecipe, None, sections)
        found.append(sections)
        return 0

    monkeypatch.setattr(study, "run_study_verb", note)
    return found


def test_without_an_installed_base_the_demo_reports_it_and_runs_without_it(
    box: Box, asked: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["demo"]) == 0
    assert asked[0]["study"]["arms"] == LIVE
    told = " ".join(capsys.readouterr().err.split())
    assert "The arm box is left out: box:reviews-en cannot be used (see headswap bases)." in told


def test_with_the_installed_base_the_demo_has_one_more_arm(
    box: Box, tokenizer: Tokenizer, tmp_path: Path, asked: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tiny_base(tmp_path / "made", tokenizer)
    box.offer("reviews-en", str(folder))
    assert run(["demo"]) == 0
    assert asked[0]["study"]["arms"] == (*LIVE, "box")
    assert asked[0]["study"]["primary_arm"] == "box"
    (folder / "README.md").write_text("mine")
    assert run(["demo", "--quiet"]) == 0
    assert asked[1]["study"]["arms"] == LIVE, "one that is damaged is not used"
    assert capsys.readouterr().err == ""
