"""Arms: names, bundles and recipes, checked before anything is trained."""

from pathlib import Path

import pytest

from headswap.core.errors import InputError, SettingError
from headswap.core.settings import load_recipe
from headswap.study.report.findings import describe_arm
from headswap.study.setup.arms import NAMED, read_arms
from headswap.study.setup.config import StudyRecipe


def bundle_at(folder: Path, *, head: str) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(f'{{"head": "{head}"}}', encoding="utf-8")
    return folder


@pytest.mark.parametrize("name", ["box", "tfidf", "pretrained", "box (1)"])
def test_a_bundle_with_the_name_of_a_built_in_arm_gets_a_suffix(tmp_path: Path, name: str) -> None:
    folder = bundle_at(tmp_path / name, head="lm")
    (arm,) = read_arms(load_recipe(StudyRecipe, None, {"study": {"arms": str(folder)}}))
    assert arm.name == f"{name}-bundle"
    assert describe_arm(arm.name) == "a given bundle or recipe"


def test_a_fine_tuned_bundle_is_refused(tmp_path: Path) -> None:
    folder = bundle_at(tmp_path / "mine", head="classify")
    with pytest.raises(InputError, match="has been fine-tuned already"):
        read_arms(load_recipe(StudyRecipe, None, {"study": {"arms": str(folder)}}))


@pytest.mark.parametrize("verb", ["finetune", "pretrain"])
def test_a_seed_in_the_recipe_of_an_arm_is_that_of_the_study(tmp_path: Path, verb: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(f'verb = "{verb}"\n[training]\nseed = 42\nlearning_rate = 1e-3\n', encoding="utf-8")
    (arm,) = read_arms(load_recipe(StudyRecipe, None, {"study": {"arms": str(path), "corpus": "texts.txt"}}))
    assert (arm.finetune if verb == "finetune" else arm.pretrain)["training"] == {"learning_rate": 1e-3}


def test_an_arm_with_labels_beyond_its_budget_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('verb = "finetune"\n[consistency]\nteachers = ["runs/large"]\n', encoding="utf-8")
    with pytest.raises(SettingError, match="has teachers or unlabelled texts"):
        read_arms(load_recipe(StudyRecipe, None, {"study": {"arms": str(path), "corpus": "texts.txt"}}))


@pytest.mark.parametrize(
    ("arm", "sentence"),
    [
        ("skratch", "'skratch' is not an arm. Did you mean 'scratch'?"),
        ("runs/nowhere", "runs/nowhere does not exist"),
    ],
)
def test_an_unknown_arm_is_refused(arm: str, sentence: str) -> None:
    with pytest.raises((SettingError, InputError), match=sentence):
        read_arms(load_recipe(StudyRecipe, None, {"study": {"arms": arm}}))


def test_an_arm_with_an_unknown_setting_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NAMED, "future", ("base", {}, {"not_yet": "x"}))
    with pytest.raises(SettingError, match="The arm 'future' needs the setting not_yet = 'x', which this version does"):
        read_arms(load_recipe(StudyRecipe, None, {"study": {"arms": "future", "corpus": ("c",)}}))
    monkeypatch.setitem(NAMED, "later", ("base", {"objective": "dreamt"}, {}))
    with pytest.raises(
        SettingError, match=r"The arm 'later' has a setting that this version does not accept: .*objective = 'dreamt'"
    ):
        read_arms(load_recipe(StudyRecipe, None, {"study": {"arms": "later", "corpus": ("c",)}}))


def test_a_base_needs_a_corpus() -> None:
    with pytest.raises(SettingError, match="The arm 'pretrained' needs a corpus"):
        read_arms(load_recipe(StudyRecipe, None, {"study": {"arms": "pretrained"}}))
