"""The designs of a study: planned tests, and what was changed after runs were scored."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headswap.core.errors import InputError, SettingError
from headswap.core.settings import load_recipe
from headswap.study.setup.arms import read_arms
from headswap.study.setup.config import StudyRecipe
from headswap.study.statistics.design import (
    Design,
    default_primary,
    design_changes,
    is_planned,
    looks,
    read_designs,
    record_design,
)

ARMS = ["majority", "tfidf", "scratch", "pretrained", "lora"]


def record(folder: Path, **settings: Any) -> None:
    record_design(load_recipe(StudyRecipe, None, {"study": settings}), ARMS, folder)


def add_scored_run(folder: Path) -> None:
    run = folder / "runs" / "scratch-100-seed1"
    run.mkdir(parents=True)
    np.savez(run / "predictions.npz", targets=np.zeros(1))


def test_the_primary_arm_is_pretrained_or_the_first_that_is_trained_from_a_base() -> None:
    assert default_primary(ARMS) == "pretrained"
    assert default_primary(["tfidf", "scratch", "lora", "box"]) == "lora"
    assert default_primary(["tfidf", "scratch", "linear:box", "linear", "box"]) == "box"
    assert default_primary(["tfidf", "scratch", "linear:box"]) == "linear:box"
    assert default_primary(["linear (study-a)", "box (study-a)"]) == "box (study-a)"
    assert default_primary(["tfidf", "scratch"]) is None


def test_the_same_design_is_recorded_once(tmp_path: Path) -> None:
    record(tmp_path, seeds=3)
    record(tmp_path, seeds=3)
    assert read_designs(tmp_path) == [Design("pretrained", "accuracy", 3)]


def test_seeds_added_after_runs_were_scored_are_stated_with_their_error(tmp_path: Path) -> None:
    record(tmp_path, seeds=3)
    add_scored_run(tmp_path)
    record(tmp_path, seeds=10)
    designs = read_designs(tmp_path)
    assert [design.num_scored for design in designs] == [0, 1]
    assert looks(designs) == (3, 10)
    assert design_changes(designs) == [
        "Seeds were added after runs were scored (3, then 10). If they were added because of those scores, the error "
        "rate of a test is up to 0.09, not 0.05."
    ]
    assert is_planned(designs), "the primary arm and the metric are those that were planned"


def test_seeds_added_before_anything_was_scored_are_part_of_the_plan(tmp_path: Path) -> None:
    record(tmp_path, seeds=3)
    record(tmp_path, seeds=10)
    assert looks(read_designs(tmp_path)) == (10,)
    assert design_changes(read_designs(tmp_path)) == []


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"primary_arm": "lora"}, "The primary arm was changed from pretrained to lora after 1 run had been scored"),
        ({"metric": "macro_f1"}, "The metric was changed from accuracy to macro_f1 after 1 run had been scored"),
    ],
)
def test_a_changed_primary_arm_or_metric_makes_every_test_exploratory(
    tmp_path: Path, settings: dict[str, Any], sentence: str
) -> None:
    record(tmp_path)
    add_scored_run(tmp_path)
    record(tmp_path, **settings)
    designs = read_designs(tmp_path)
    assert not is_planned(designs)
    assert design_changes(designs)[0].startswith(sentence)


def test_a_study_that_is_continued_keeps_its_primary_arm_unless_another_is_named(tmp_path: Path) -> None:
    """Also one of an earlier version, whose default was the first arm, `linear` or not."""
    recipe = load_recipe(StudyRecipe, None, {"study": {"seeds": 3}})
    (tmp_path / "design.json").write_text(json.dumps([{"primary": "linear:box", "metric": "accuracy", "seeds": 3}]))
    add_scored_run(tmp_path)
    record_design(recipe, ["tfidf", "scratch", "linear:box", "box"], tmp_path)
    assert [design.primary for design in read_designs(tmp_path)] == ["linear:box"]
    record_design(recipe, ["tfidf", "scratch", "box"], tmp_path)
    assert [design.primary for design in read_designs(tmp_path)] == ["linear:box", "box"]


def test_a_primary_arm_that_is_not_an_arm_is_an_error(tmp_path: Path) -> None:
    recipe = load_recipe(StudyRecipe, None, {"study": {"arms": ("tfidf", "scratch", "lora"), "primary_arm": "tfidf"}})
    with pytest.raises(SettingError, match=r"primary_arm is 'tfidf'; it must be one of lora \(--arms\)"):
        read_arms(recipe)


def test_a_damaged_design_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "design.json").write_text('[{"seeds": 3}]', encoding="utf-8")
    with pytest.raises(InputError, match=r"design\.json is damaged"):
        read_designs(tmp_path)
