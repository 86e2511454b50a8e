"""How the time limit of a study (`--max-minutes`) is divided: what pre-training gets of it."""

from headswap.study.setup.arms import ADAPTED, Arm
from headswap.study.setup.config import StudyAdapt, StudyPretrain, StudyRecipe

PRETRAINING_SHARE = 0.4
"""Share of `--max-minutes` for pre-training and adaptation without their own limits."""


def with_limits(recipe: StudyRecipe, arms: list[Arm], max_minutes: float | None) -> StudyRecipe:
    """Give pre-training and adaptation without limits of their own an equal share of the study's time."""
    if max_minutes is None:
        return recipe
    num_adapted = len({(arm.of or arm).bundle for arm in arms if (arm.of or arm).start == ADAPTED})
    bases = {_base_settings(recipe, arm.of or arm) for arm in arms if (arm.of or arm).start == "base"}
    num_parts = max(1, num_adapted + len(bases))
    share = round(max_minutes * PRETRAINING_SHARE / recipe.study.base_seeds / num_parts, 2)
    limited = {"max_minutes": max(0.05, share)}
    if not _has_limit(recipe.pretrain):
        recipe = recipe.changed(pretrain=recipe.pretrain.changed(**limited))
    if num_adapted and not _has_limit(recipe.adapt):
        recipe = recipe.changed(adapt=recipe.adapt.changed(**limited))
    return recipe


def _base_settings(recipe: StudyRecipe, arm: Arm) -> str:
    """What distinguishes the bases that a study pre-trains, such as their objectives."""
    training = {"objective": recipe.pretrain.objective} | arm.pretrain.get("training", {})
    return str(sorted((arm.pretrain | {"training": training}).items()))


def _has_limit(settings: StudyPretrain | StudyAdapt) -> bool:
    return any(getattr(settings, name) is not None for name in settings.exclusive)
