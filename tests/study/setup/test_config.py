"""Settings of a study."""

from pathlib import Path

import pytest

from headswap.core.errors import SettingError
from headswap.core.local_paths import home_paths
from headswap.core.settings import load_recipe
from headswap.study.jobs.plan import make_plan
from headswap.study.setup.arms import read_arms
from headswap.study.setup.config import StudyRecipe
from study_fixture import (
    planned,
    write_data,
)


def test_budgets_are_separated_by_commas_or_given_as_lists() -> None:
    for given in ("400,100,all", ("all", "100", "400"), [100, "400", "all"]):
        assert load_recipe(StudyRecipe, None, {"study": {"budgets": given}}).study.budgets == ("100", "400", "all")
    with pytest.raises(SettingError, match="budgets holds 'many'"):
        load_recipe(StudyRecipe, None, {"study": {"budgets": "100,many"}})


def test_a_saved_recipe_is_read_back(tmp_path: Path) -> None:
    recipe = load_recipe(StudyRecipe, None, write_data(tmp_path / "files"))
    recipe.save(tmp_path / "study.toml")
    again = load_recipe(StudyRecipe, tmp_path / "study.toml")
    assert again.model_dump(mode="json") == home_paths(recipe.model_dump(mode="json")), "without absolute paths"
    _, prepared, plan = planned(tmp_path / "out", write_data(tmp_path / "files"))
    assert make_plan(again, read_arms(again), prepared, tmp_path / "out").jobs.keys() == plan.jobs.keys()


def test_the_former_name_of_on_overlap_is_accepted_in_a_recipe(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text('[study]\non_leak = "report"\n', encoding="utf-8")
    assert load_recipe(StudyRecipe, tmp_path / "study.toml").study.on_overlap == "report"
    flags = {"study": {"on_overlap": "stop"}}
    assert load_recipe(StudyRecipe, tmp_path / "study.toml", flags).study.on_overlap == "stop"
