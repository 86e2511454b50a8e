"""Strict settings: flags override the recipe, and all problems are reported at once."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from headswap.core.errors import SettingError
from headswap.core.keyword_arguments import section_of_setting
from headswap.core.settings import Settings, flattened, load_recipe
from headswap.finetuning.config import FinetuneRecipe
from headswap.pretraining.config import PretrainRecipe, PretrainTraining

RECIPES = [PretrainRecipe, FinetuneRecipe]


def recipe_file(tmp_path: Path, content: str) -> Path:
    (tmp_path / "recipe.toml").write_text(content, encoding="utf-8")
    return tmp_path / "recipe.toml"


def test_a_misspelt_setting_is_reported_with_its_file_and_a_suggestion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe_file(tmp_path, "[training]\nlearning_rat = 1.0\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingError) as caught:
        load_recipe(PretrainRecipe, Path("recipe.toml"))
    assert str(caught.value) == ("training.learning_rat is not a setting (recipe.toml). Did you mean 'learning_rate'?")


def test_a_name_without_a_similar_one_is_reported_with_the_allowed_names(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"machine.zzz is not a setting.*Allowed here: .*'deterministic', 'device'"):
        load_recipe(PretrainRecipe, recipe_file(tmp_path, "[machine]\nzzz = 1\n"))
    with pytest.raises(SettingError, match=r"trainings is not a setting.*Did you mean 'training'"):
        load_recipe(PretrainRecipe, recipe_file(tmp_path, "[trainings]\nseed = 1\n"))


@pytest.mark.parametrize(
    ("recipe", "hint"),
    [
        ("[training]\ndevice = 'cpu'", "training.device is not a setting ({}). It belongs to the section [machine]."),
        ("[training]\nnum_train = 5", "training.num_train is not a setting ({}). It belongs to the section [data]."),
        ("learning_rate = 1e-4", "learning_rate is not a setting ({}). It belongs to the section [training]."),
        ("[training]\nworkers = 2", "workers is not a setting ({}). Did you mean 'threads' of the section [machine]?"),
        ("[machine]\nlr = 1", "lr is not a setting ({}). Did you mean 'learning_rate' of the section [training]?"),
    ],
)
def test_a_setting_of_another_section_is_named_with_its_section(tmp_path: Path, recipe: str, hint: str) -> None:
    file = recipe_file(tmp_path, recipe)
    with pytest.raises(SettingError) as caught:
        load_recipe(FinetuneRecipe, file)
    assert hint.format(file) in str(caught.value)


def test_all_problems_are_reported_at_once(tmp_path: Path) -> None:
    file = recipe_file(tmp_path, '[training]\nlearning_rat = 1.0\nseed = -1\nmax_steps = 0\n[model]\npreset = "big"\n')
    with pytest.raises(SettingError) as caught:
        load_recipe(PretrainRecipe, file)
    message = str(caught.value)
    assert message.count("\n") == 3
    for word in ("training.learning_rat", "training.seed = -1", "training.max_steps = 0", "model.preset = 'big'"):
        assert word in message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('verb = "finetune"', "verb = 'finetune'"),
        ('[training]\nseed = "x"', "training.seed = 'x' is not allowed"),
        ("training = 3", "training = 3 is not allowed"),
        ("[training", "not valid TOML"),
    ],
)
def test_a_wrong_value_is_reported_with_its_file(tmp_path: Path, content: str, words: str) -> None:
    with pytest.raises(SettingError, match=words) as caught:
        load_recipe(PretrainRecipe, recipe_file(tmp_path, content))
    assert "recipe.toml" in str(caught.value)


def test_a_missing_recipe_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="does not exist"):
        load_recipe(PretrainRecipe, tmp_path / "none.toml")
    with pytest.raises(SettingError, match="is a folder"):
        load_recipe(PretrainRecipe, tmp_path)


def test_flags_override_the_recipe_and_keep_the_rest(tmp_path: Path) -> None:
    file = recipe_file(tmp_path, "[training]\nseed = 7\nbatch_size = 3\n")
    recipe = load_recipe(PretrainRecipe, file, {"training": PretrainTraining(seed=8), "model": None})
    assert (recipe.training.seed, recipe.training.batch_size) == (8, 3)
    as_default = load_recipe(PretrainRecipe, file, {"training": PretrainTraining(seed=42)})
    assert as_default.training.seed == 42, "a flag with the default value also overrides"
    untouched = load_recipe(PretrainRecipe, file, {"training": PretrainTraining()})
    assert untouched.training.seed == 7, "a default that was not given does not override"


@pytest.mark.parametrize("kind", RECIPES)
def test_no_setting_is_in_two_sections(kind: type) -> None:
    homes = section_of_setting(kind)
    assert homes["learning_rate"] == "training"
    assert len(homes) > 20


@pytest.mark.parametrize("kind", RECIPES)
def test_every_setting_has_a_help_text(kind: type[BaseModel]) -> None:
    for section, field in kind.model_fields.items():
        for name, setting in getattr(field.annotation, "model_fields", {}).items():
            assert setting.description, f"{section}.{name}"


def test_settings_are_frozen_and_copies_are_validated() -> None:
    settings = PretrainTraining(seed=3)
    with pytest.raises(ValueError, match="frozen"):
        settings.seed = 4  # type: ignore[misc]
    with pytest.raises(ValueError, match="seed"):
        settings.changed(seed=-1)
    assert settings.changed(batch_size=2).model_fields_set == {"seed", "batch_size"}
    assert isinstance(settings, Settings)


@given(
    seed=st.integers(0, 2**31),
    rate=st.floats(1e-12, 10, allow_nan=False),
    corpus=st.lists(st.text(st.characters(blacklist_categories=("Cs",)), min_size=1), max_size=3),
    preset=st.sampled_from(["lab", "small", "modern"]),
    dropout=st.none() | st.floats(0, 0.99),
    documents=st.sampled_from(["auto", "line", "file"]),
)
def test_a_recipe_reloads_equal(
    tmp_path_factory: pytest.TempPathFactory, seed: int, rate: float, corpus: list[str], preset: str,
    dropout: float | None, documents: str,
) -> None:  # fmt: skip
    recipe = PretrainRecipe.model_validate({
        "corpus": {"corpus": tuple(corpus), "documents": documents},
        "model": {"preset": preset, "dropout": dropout},
        "training": {"seed": seed, "learning_rate": rate},
    })  # fmt: skip
    file = tmp_path_factory.mktemp("recipes") / "recipe.toml"
    recipe.save(file)
    assert load_recipe(PretrainRecipe, file) == recipe


def test_a_recipe_of_another_verb_is_one_sentence(tmp_path: Path) -> None:
    FinetuneRecipe().save(tmp_path / "recipe.toml")
    with pytest.raises(SettingError, match="verb = 'finetune' is not allowed") as caught:
        load_recipe(PretrainRecipe, tmp_path / "recipe.toml")
    assert "\n" not in str(caught.value)


def test_a_flattened_recipe_has_every_setting_by_section_and_name() -> None:
    values = flattened(PretrainRecipe.model_validate({"training": {"seed": 7}, "corpus": {"corpus": ("a.txt",)}}))
    assert (values["training.seed"], values["corpus.corpus"]) == (7, ["a.txt"])
    assert values["training.max_minutes"] is None, "unset values are included"
    assert "verb" not in values
