"""What pre-training gets of the time limit of a study."""

from headswap.core.settings import load_recipe
from headswap.study.setup.arms import ADAPTED, Arm, read_arms
from headswap.study.setup.config import StudyRecipe
from headswap.study.setup.time_budget import with_limits


def test_pretraining_and_adaptation_share_a_part_of_the_time_limit() -> None:
    base, adapted = Arm("pretrained", "base"), Arm("adapted", ADAPTED)
    recipe = load_recipe(StudyRecipe, None, {"study": {"base_seeds": 2}})
    assert with_limits(recipe, [base], 10).pretrain.max_minutes == 2.0
    assert with_limits(recipe, [base], 10).adapt.max_minutes is None
    assert with_limits(recipe, [base], None) == recipe
    both = with_limits(recipe, [base, adapted], 10)
    assert (both.pretrain.max_minutes, both.adapt.max_minutes) == (1.0, 1.0)
    assert with_limits(recipe, [adapted], 10).adapt.max_minutes == 2.0
    own = load_recipe(StudyRecipe, None, {"pretrain": {"max_steps": 5}, "adapt": {"num_train_epochs": 2}})
    assert with_limits(own, [base, adapted], 10) == own


def limit_of(arms: str, **pretrain: str) -> float | None:
    """The minutes of each pre-training of a study of 10 minutes."""
    recipe = load_recipe(StudyRecipe, None, {"study": {"arms": arms, "corpus": "texts.txt"}, "pretrain": pretrain})
    return with_limits(recipe, read_arms(recipe), 10).pretrain.max_minutes


def test_every_objective_has_a_base_and_its_part_of_the_time() -> None:
    assert limit_of("pretrained,lora,linear") == 4.0, "they share one base"
    assert limit_of("pretrained,lora,linear,masked") == 2.0
    assert limit_of("pretrained,masked", objective="masked") == 4.0
