"""The bases that the project ships: their packages, their weights and what their cards state."""

import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

import headswap as hs
from boxed import Box
from headswap.bundle.bundle import Bundle
from headswap.bundle.check import check_bundle
from headswap.core.errors import InputError
from headswap.core.files import read_json
from headswap.core.installed_bases import OWN_BASE, base_folder, list_bases
from headswap.core.manifest import manifest_problems
from headswap.core.settings import load_recipe
from headswap.pretraining.config import PretrainRecipe
from headswap.pretraining.pack import reference_loss
from headswap.study.setup.config import StudyRecipe

ROOT = Path(__file__).parents[1]
MOST_BYTES = 16_000_000


@dataclass(frozen=True)
class Shipped:
    """The folders of a base."""

    name: str

    @property
    def folder(self) -> Path:
        return ROOT / "bases" / self.name

    @property
    def package(self) -> Path:
        return self.folder / "src" / f"headswap_base_{self.name.replace('-', '_')}"

    @property
    def bundle(self) -> Path:
        return self.package / "bundle"

    @property
    def record(self) -> Path:
        return self.package / "record"

    @property
    def recipe(self) -> PretrainRecipe:
        return load_recipe(PretrainRecipe, ROOT / "recipes" / f"box-{self.name}.toml")


@pytest.fixture(params=["reviews-en", "reviews-en-2"])
def shipped(request: pytest.FixtureRequest) -> Shipped:
    """Each base in turn."""
    return Shipped(request.param)


def test_the_base_of_the_arm_box_is_the_second_edition_and_the_first_stays_installable() -> None:
    assert OWN_BASE == "reviews-en-2"
    assert {folder.name for folder in (ROOT / "bases").iterdir()} == {"reviews-en", "reviews-en-2"}


def test_the_package_provides_its_base(shipped: Shipped, monkeypatch: pytest.MonkeyPatch) -> None:
    project = tomllib.loads((shipped.folder / "pyproject.toml").read_text(encoding="utf-8"))
    module, _, name = project["project"]["entry-points"]["headswap.bases"][shipped.name].partition(":")
    monkeypatch.syspath_prepend(str(shipped.folder / "src"))
    assert getattr(__import__(module), name) == shipped.bundle


def test_a_copy_without_weights_says_so(shipped: Shipped, box: Box) -> None:
    box.offer(shipped.name, None, code=(shipped.package / "__init__.py").read_text(encoding="utf-8"))
    with pytest.raises(InputError, match=r"has no weights: .*bundle does not exist"):
        base_folder(f"box:{shipped.name}")


def test_the_studies_of_the_first_base_use_its_shape_and_its_tokenizer() -> None:
    base = Shipped("reviews-en").recipe.model
    for name in ("imdb", "rt"):
        recipe = load_recipe(StudyRecipe, ROOT / "recipes" / f"box-{name}-study.toml")
        assert recipe.tokenizer.tokenizer == "box:reviews-en"
        assert recipe.model.model_dump(exclude={"dropout"}) == base.model_dump(exclude={"dropout"})
        assert recipe.study.arms == ("majority", "tfidf", "scratch", "box:reviews-en")
        assert recipe.study.seeds == 5


def test_the_shipped_files_are_those_that_were_packed_and_fit_the_limit(shipped: Shipped) -> None:
    assert [check.message for check in check_bundle(shipped.bundle) if not check.is_sound] == []
    assert manifest_problems(shipped.record) == []
    files = [file for folder in (shipped.bundle, shipped.record) for file in folder.iterdir()]
    assert sum(file.stat().st_size for file in files) <= MOST_BYTES


def test_the_shipped_weights_give_the_recorded_loss(shipped: Shipped) -> None:
    recorded = read_json(shipped.record / "reference.json")
    found = reference_loss(Bundle.load(shipped.bundle), shipped.record)
    assert found["num_tokens"] == recorded["num_tokens"]
    assert found["loss"] == pytest.approx(recorded["loss"], abs=recorded["tolerance"])


def test_the_shipped_base_was_made_by_its_recipe(shipped: Shipped) -> None:
    recipe, saved = shipped.recipe, load_recipe(PretrainRecipe, shipped.record / "recipe.toml")
    for section in ("model", "training", "masking"):
        given = getattr(recipe, section).model_dump(exclude_unset=True)
        assert {name: getattr(getattr(saved, section), name) for name in given} == given
    assert (saved.corpus.corpus, saved.tokenizer) == (recipe.corpus.corpus, recipe.tokenizer)


def test_the_card_states_the_data_and_that_it_contains_no_test_text(shipped: Shipped, box: Box) -> None:
    overlap = read_json(shipped.record / "guard.json")
    assert {entry["to"] for entry in overlap["found_in_what_was_kept"]} >= {"train", "test"}
    assert all(entry["exact_rows"] == entry["near_rows"] == 0 for entry in overlap["found_in_what_was_kept"])
    card, result = Bundle.load(shipped.bundle).card, read_json(shipped.record / "result.json")
    assert card["sha256 of unsup.jsonl.gz"] == overlap["files"]["unsup.jsonl.gz"]
    assert (card["tokens read"], card["device"]) == (result["tokens"], result["device"])
    box.offer(shipped.name, str(shipped.bundle))
    (info,) = list_bases()
    assert info.problem is None
    assert info.licence
    assert info.limits


def test_the_second_edition_generates_and_fills_with_the_words_on_both_sides() -> None:
    model = hs.load(Shipped("reviews-en-2").bundle)
    assert len(model.generate("this film", max_new_tokens=8).split()) >= 5
    praise = model.fill("the acting was <mask>, i loved every minute of it and i will watch it again")
    blame = model.fill("the acting was <mask>, i hated every minute of it and i walked out")
    words = [{candidate.token.strip() for candidate in filled.masks[0]} for filled in (praise, blame)]
    assert "great" in words[0] - words[1]
    assert "terrible" in words[1] - words[0], "the words after the mask are read"
