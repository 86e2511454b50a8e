"""The demo: a study with fixed arms, one more where the project's own base is installed, and its last sentence."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from boxed import Box, tiny_base
from headswap.cli.exit_codes import run
from headswap.cli.study_display import print_results
from headswap.cli.verbs import study
from headswap.cli.verbs.demo import OWN_TEXT, closing_sentence
from headswap.core.settings import load_recipe
from headswap.study.report.write import make_report
from headswap.study.setup.config import StudyRecipe
from headswap.study.statistics.analysis import analyse
from headswap.tokens.tokenizer import Tokenizer
from study_fixture import synthetic_study

LIVE = ("majority", "tfidf", "lsa", "scratch", "pretrained")
BELOW = {
    ("tfidf", 100): [0.55] * 3,
    ("tfidf", 400): [0.6] * 3,
    ("scratch", 100): [0.52] * 3,
    ("scratch", 400): [0.55] * 3,
}
"""Accuracies below those of the installed base, per seed."""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The sections of the studies that were asked for; none is run."""
    found: list[dict[str, Any]] = []

    def note(_out: Path, _flags: object, sections: dict[str, Any], **_more: object) -> int:
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
    assert asked[0]["pretrain"]["max_minutes"] == 1
    told = " ".join(capsys.readouterr().err.split())
    assert "The arm box is left out: box:reviews-en-2 cannot be used (see headswap bases)." in told


def test_with_the_installed_base_the_planned_tests_are_about_it_and_pretraining_is_one_more_arm_on_request(
    box: Box, tokenizer: Tokenizer, tmp_path: Path, asked: list[dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tiny_base(tmp_path / "made", tokenizer)
    box.offer("reviews-en-2", str(folder))
    assert run(["demo"]) == 0
    assert asked[0]["study"]["arms"] == (*LIVE[:-1], "box"), "one minute of pre-training is left out"
    assert asked[0]["study"]["primary_arm"] == "box"
    assert run(["demo", "--minutes", "2"]) == 0
    assert asked[1]["study"]["arms"] == (*LIVE, "box")
    assert asked[1]["study"]["primary_arm"] == "box"
    assert asked[1]["pretrain"]["max_minutes"] == 2
    (folder / "README.md").write_text("mine")
    assert run(["demo", "--quiet"]) == 0
    assert asked[2]["study"]["arms"] == LIVE, "one that is damaged is not used"
    assert capsys.readouterr().err == ""


def sentence_of(cells: dict[tuple[str, int], list[float]], **more: Any) -> str:
    sentence = closing_sentence(analyse(synthetic_study(cells, **more)))
    end = f". To measure it on your own text and labels, run: {OWN_TEXT}"
    assert sentence.endswith(end)
    return sentence.removesuffix(end)


def test_the_last_sentence_states_a_gain_only_where_every_planned_test_shows_it() -> None:
    shown = BELOW | {("box", 100): [0.7, 0.71, 0.69], ("box", 400): [0.75, 0.76, 0.74]}
    name = "a base that was pre-trained on many film reviews"
    assert sentence_of(shown) == (
        f"What this means: with the same labels, {name} beats training from scratch and the best baseline here, so "
        "pre-training on text of your kind is worth a test"
    )
    level = shown | {("tfidf", 400): [0.75, 0.76, 0.74]}
    assert sentence_of(level) == (
        f"What this means: a gain of {name} over the best baseline is not shown at every number of labels"
    )
    nowhere = level | {("scratch", 100): [0.7, 0.71, 0.69]}
    assert "over training from scratch and over the best baseline is not shown" in sentence_of(nowhere)


def test_the_last_sentence_without_an_installed_base_is_about_the_pretraining_of_the_demo() -> None:
    cells = BELOW | {("pretrained", 100): [0.53, 0.51, 0.52], ("pretrained", 400): [0.55, 0.56, 0.54]}
    assert "a gain of pre-training here over" in sentence_of(cells)


def test_the_last_sentence_claims_nothing_with_two_seeds() -> None:
    cells = {cell: values[:2] for cell, values in BELOW.items()} | {("box", 100): [0.7] * 2, ("box", 400): [0.8] * 2}
    assert sentence_of(cells) == "What this means: this demo has too few runs for a claim"


def test_the_sentence_is_the_last_thing_that_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    report = make_report(synthetic_study(BELOW | {("box", 100): [0.7] * 3, ("box", 400): [0.8] * 3}))
    print_results(report.as_json() | {"closing": "The end."}, out=Path("runs/demo"))
    *_, before, last = capsys.readouterr().out.splitlines()
    assert (before.partition(":")[0], last) == ("Report", "The end.")


def test_the_command_for_own_text_is_a_valid_study(asked: list[dict[str, Any]]) -> None:
    assert run(shlex.split(OWN_TEXT)[1:]) == 0
    assert asked[0]["study"]["corpus"] == ("texts.txt",)
