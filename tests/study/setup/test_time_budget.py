"""What pre-training gets of the time limit of a study."""

from headswap.core.settings import load_recipe
from headswap.study.setup.arms import ADAPTED, Arm
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
