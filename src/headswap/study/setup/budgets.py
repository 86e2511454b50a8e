"""The label budgets of a study: which of them the training set allows, and the labelled sets of a run with one."""

from typing import Any

from headswap.core.errors import SettingError, counted
from headswap.data.config import FEWEST_FOR_CHOOSING
from headswap.study.setup.config import ALL, StudyRecipe
from headswap.study.setup.prepare import Prepared
from headswap.study.setup.row_files import GROUP
from headswap.tasks.choose import DEFAULT_TASK
from headswap.tasks.text_task import PAIR


def usable_budgets(recipe: StudyRecipe, prepared: Prepared) -> tuple[list[str], list[str]]:
    """Budgets that fit the training set, and those that are too large; the latter are an error if set explicitly."""
    most = prepared.num_rows["train"]
    fit = [budget for budget in recipe.study.budgets if budget == ALL or int(budget) <= most]
    over = [budget for budget in recipe.study.budgets if budget not in fit]
    if ALL in fit and str(prepared.num_labels(ALL)) in fit:
        fit.remove(ALL)
    if over and ("budgets" in recipe.study.model_fields_set or not fit):
        raise SettingError(
            f"A budget of {int(over[0]):,} labels is too large: the training set has {counted(most, 'example')}. "
            "Give smaller --budgets, or all."
        )
    return fit, over


def data_section(recipe: StudyRecipe, prepared: Prepared, budget: str) -> dict[str, Any]:
    """The labelled sets of a run: all has train and validation as given; other budgets are drawn from train."""
    data: dict[str, Any] = {"train": prepared.train, "test": prepared.test}
    if recipe.data.group_column is not None:
        data["group_column"] = GROUP
    if recipe.data.task not in (None, DEFAULT_TASK):
        data["task"] = recipe.data.task
    if recipe.data.text_pair_column is not None:
        data["text_pair_column"] = PAIR
    if recipe.data.unseen_labels != "error":
        data["unseen_labels"] = recipe.data.unseen_labels
    if recipe.data.hold_out_from != FEWEST_FOR_CHOOSING:
        data["hold_out_from"] = recipe.data.hold_out_from
    if budget != ALL:
        return data | {"num_train": int(budget)}
    return data | ({"validation": prepared.validation} if prepared.validation else {})
