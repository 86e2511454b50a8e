"""Budgets that the training set allows."""

from pathlib import Path

import pytest

from headswap.core.errors import SettingError
from headswap.study.setup.budgets import usable_budgets
from study_fixture import planned, write_data


def test_a_budget_that_is_too_large_is_an_error_if_it_was_given(tmp_path: Path) -> None:
    sections = write_data(tmp_path / "files")
    sections["study"]["budgets"] = ("40", "1600")
    with pytest.raises(SettingError, match="A budget of 1,600 labels is too large: the training set has 240"):
        planned(tmp_path / "out", sections)
    del sections["study"]["budgets"]
    recipe, prepared, _ = planned(tmp_path / "out", sections)
    assert usable_budgets(recipe, prepared) == (["100", "all"], ["400", "1600"])
