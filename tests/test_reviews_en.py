"""The base that the project ships: its package and its weights."""

import tomllib
from pathlib import Path

import pytest

from boxed import Box
from headswap.bundle.bundle import Bundle
from headswap.bundle.check import check_bundle
from headswap.core.errors import InputError
from headswap.core.files import read_json
from headswap.core.installed_bases import base_folder, list_bases
from headswap.core.manifest import manifest_problems
from headswap.core.settings import load_recipe
from headswap.pretraining.config import PretrainRecipe
from headswap.pretraining.pack import reference_loss
from headswap.study.setup.config import StudyRecipe

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "bases" / "reviews-en"
PACKAGE = FOLDER / "src" / "headswap_base_reviews_en"
BUNDLE, RECORD = PACKAGE / "bundle", PACKAGE / "record"
MOST_BYTES = 16_000_000


def test_the_package_provides_the_base_of_the_arm_box(monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((FOLDER / "pyproject.toml").read_text(encoding="utf-8"))
    module, _, name = project["project"]["entry-points"]["headswap.bases"]["reviews-en"].partition(":")
    monkeypatch.syspath_prepend(str(FOLDER / "src"))
    assert getattr(__import__(module), name) == BUNDLE


def test_a_copy_without_weights_says_so(box: Box) -> None:
    box.offer("reviews-en", None, code=(PACKAGE / "__init__.py").read_text(encoding="utf-8"))
    with pytest.raises(InputError, match=r"has no weights: .*bundle does not exist"):
        base_folder("box:reviews-en")


def test_the_studies_of_the_base_use_its_shape_and_its_tokenizer() -> None:
    base = load_recipe(PretrainRecipe, ROOT / "recipes" / "box-reviews-en.toml").model
    for name in ("imdb", "rt"):
        recipe = load_recipe(StudyRecipe, ROOT / "recipes" / f"box-{name}-study.toml")
        assert recipe.tokenizer.tokenizer == "box:reviews-en"
        assert recipe.model.model_dump(exclude={"dropout"}) == base.model_dump(exclude={"dropout"})
        assert recipe.study.arms == ("majority", "tfidf", "scratch", "box")
        assert recipe.study.seeds == 5


def test_the_shipped_files_are_those_that_were_packed_and_fit_the_limit() -> None:
    assert [check.message for check in check_bundle(BUNDLE) if not check.is_sound] == []
    assert manifest_problems(RECORD) == []
    assert sum(file.stat().st_size for folder in (BUNDLE, RECORD) for file in folder.iterdir()) <= MOST_BYTES


def test_the_shipped_weights_give_the_recorded_loss() -> None:
    recorded = read_json(RECORD / "reference.json")
    found = reference_loss(Bundle.load(BUNDLE), RECORD)
    assert found["num_tokens"] == recorded["num_tokens"]
    assert found["loss"] == pytest.approx(recorded["loss"], abs=recorded["tolerance"])


def test_the_shipped_base_was_made_by_its_recipe() -> None:
    recipe = load_recipe(PretrainRecipe, ROOT / "recipes" / "box-reviews-en.toml")
    saved = load_recipe(PretrainRecipe, RECORD / "recipe.toml")
    for section in ("model", "training"):
        given = getattr(recipe, section).model_dump(exclude_unset=True)
        assert {name: getattr(getattr(saved, section), name) for name in given} == given
    assert (saved.corpus.corpus, saved.tokenizer) == (recipe.corpus.corpus, recipe.tokenizer)


def test_the_card_states_the_data_and_that_it_contains_no_test_text(box: Box) -> None:
    overlap = read_json(RECORD / "guard.json")
    assert {entry["to"] for entry in overlap["found_in_what_was_kept"]} >= {"train", "test"}
    assert all(entry["exact_rows"] == entry["near_rows"] == 0 for entry in overlap["found_in_what_was_kept"])
    card, result = Bundle.load(BUNDLE).card, read_json(RECORD / "result.json")
    assert card["sha256 of unsup.jsonl.gz"] == overlap["files"]["unsup.jsonl.gz"]
    assert (card["tokens read"], card["device"]) == (result["tokens"], result["device"])
    box.offer("reviews-en", str(BUNDLE))
    (info,) = list_bases()
    assert info.problem is None
    assert info.licence
    assert info.limits
