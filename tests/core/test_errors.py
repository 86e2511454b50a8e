"""Error messages: missing files, suggestions, and problems of several inputs."""

from pathlib import Path

import pytest

from headswap.core.errors import Collected, InputError, SettingError, absent, did_you_mean
from headswap.core.keyword_arguments import sort_into_sections
from headswap.finetuning.config import FinetuneRecipe


def test_a_missing_file_is_reported_with_a_similar_name(tmp_path: Path) -> None:
    (tmp_path / "reviews.txt").touch()
    assert (
        absent(tmp_path / "review.txt")
        == f"{tmp_path}/review.txt does not exist. Did you mean '{tmp_path}/reviews.txt'?"
    )
    assert absent(tmp_path / "preview.csv") == f"{tmp_path}/preview.csv does not exist. Check the path.", (
        "a name that is only slightly similar is not suggested"
    )
    assert absent(tmp_path / "zz") == f"{tmp_path}/zz does not exist. Check the path."
    assert absent("zz.txt") == "zz.txt does not exist. Check the path, which is relative to the current folder."
    assert absent(tmp_path / "moveis", names=["movies"]).endswith("Did you mean 'movies'?")


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    assert absent(tmp_path / "data" / "a.txt").endswith(
        f"a.txt does not exist; there is no folder {tmp_path}/data. Check the path."
    )


def test_one_word_of_a_setting_is_enough_for_a_suggestion() -> None:
    names = ["num_train_epochs", "hidden_size", "batch_size", "seed"]
    assert did_you_mean("epochs", names) == " Did you mean 'num_train_epochs'?"
    assert did_you_mean("size", names) == " Did you mean 'hidden_size' or 'batch_size'?"
    assert did_you_mean("sed", names) == " Did you mean 'seed'?", "similar names take precedence"
    assert did_you_mean("epo", names) == "", "only whole words match"
    both = ["head_epochs", "num_train_epochs"]
    assert did_you_mean("epochs", both) == " Did you mean 'head_epochs' or 'num_train_epochs'?", "not the closer alone"
    with pytest.raises(SettingError, match=r"epochs is not a setting\. Did you mean .*'num_train_epochs'.*\?"):
        sort_into_sections({"epochs": 3}, FinetuneRecipe)


def test_problems_of_several_inputs_are_raised_together() -> None:
    collected = Collected()
    collected.raise_found()
    for name in ("one", "two"):
        with collected.trying():
            raise InputError(f"{name} is wrong.")
    with pytest.raises(InputError, match=r"^one is wrong\.\ntwo is wrong\.$"):
        collected.raise_found()
    with pytest.raises(ValueError, match="ours"), collected.trying():
        raise ValueError("ours")
