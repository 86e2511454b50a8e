"""Every recipe of the repository loads, and those of the lab have the lab's values."""

import tomllib
from pathlib import Path

import pytest

from headswap.core.settings import load_recipe
from headswap.finetuning.config import FinetuneRecipe
from headswap.pretraining.config import PretrainRecipe
from headswap.study.setup.config import StudyRecipe

FOLDER = Path(__file__).parents[1] / "recipes"
KINDS = {"pretrain": PretrainRecipe, "finetune": FinetuneRecipe, "study": StudyRecipe}
RECIPES = sorted(FOLDER.glob("*.toml"))


@pytest.mark.parametrize("file", RECIPES, ids=[file.stem for file in RECIPES])
def test_a_recipe_loads(file: Path) -> None:
    verb = tomllib.loads(file.read_text(encoding="utf-8"))["verb"]
    recipe = load_recipe(KINDS[verb], file)
    if isinstance(recipe, PretrainRecipe):
        recipe.training.check()


def test_the_recipes_of_the_lab_exist() -> None:
    assert {"lab-pretrain", "lab-finetune", "lab-study", "lab-far-study"} <= {file.stem for file in RECIPES}


def lab(verb: str) -> Path:
    return FOLDER / f"lab-{verb}.toml"


def test_lab_pretrain_has_the_values_of_the_lab() -> None:
    recipe = load_recipe(PretrainRecipe, lab("pretrain"))
    training = recipe.training
    assert recipe.model.preset == "lab"
    assert recipe.model.dropout in (None, 0.0)
    assert training.learning_rate == 3e-4
    assert (training.weight_decay, training.lr_scheduler_type, training.warmup_steps) == (0.0, "constant", 0)
    assert (training.max_grad_norm, training.batch_size, training.layout) == (0.5, 16, "documents")


def test_lab_finetune_has_the_values_of_the_lab() -> None:
    recipe = load_recipe(FinetuneRecipe, lab("finetune"))
    training = recipe.training
    assert training.learning_rate == 1e-4
    assert (training.weight_decay, training.lr_scheduler_type, training.warmup_steps) == (0.0, "constant", 0)
    assert (training.max_grad_norm, training.batch_size, training.num_train_epochs) == (0.5, 8, 15)
    assert (recipe.head.pooling, recipe.head.head_dropout, recipe.model.dropout) == ("last", 0.0, 0.0)
    adaptation = recipe.adaptation
    assert (adaptation.unfreeze, adaptation.layer_lr_decay, adaptation.head_lr_factor) == ("at-once", 1.0, 1.0)


def test_lab_study_trains_with_the_settings_of_the_other_two() -> None:
    study = load_recipe(StudyRecipe, FOLDER / "lab-study.toml")
    finetune, pretrain = load_recipe(FinetuneRecipe, lab("finetune")), load_recipe(PretrainRecipe, lab("pretrain"))
    for name in set(type(finetune.training).model_fields) - {"seed", "max_length"}:
        assert getattr(study.finetune, name) == getattr(finetune.training, name), name
    for name in set(type(pretrain.training).model_fields) - {"seed", "max_length", "num_train_epochs", "max_steps"}:
        assert getattr(study.pretrain, name) == getattr(pretrain.training, name), name
    assert study.pretrain.max_steps == pretrain.training.num_train_epochs * 50_000 / pretrain.training.batch_size
    assert (study.head, study.adaptation) == (finetune.head, finetune.adaptation)
    assert (study.model.preset, study.model.dropout, study.finetune.dropout) == ("lab", 0.0, 0.0)
    assert study.study.max_length == finetune.training.max_length == pretrain.training.max_length
    assert study.data.model_dump() == finetune.data.model_dump()
    assert study.study.arms == ("majority", "tfidf", "scratch", "pretrained")


def test_far_lab_study_differs_in_its_corpus_only() -> None:
    near, far = (load_recipe(StudyRecipe, FOLDER / f"lab{name}-study.toml") for name in ("", "-far"))
    assert near.study.corpus != far.study.corpus
    same = {"corpus": near.study.corpus, "documents": near.study.documents}
    assert far.changed(study=far.study.changed(**same)) == near
