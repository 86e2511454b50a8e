"""Paths in files: as given, relative to the current or the home folder, or only a name."""

from pathlib import Path

import pytest

from headswap.core.local_paths import (
    expanded_paths,
    home_paths,
    local_command,
    local_path,
    shared_name,
    shared_names,
    shown_addresses,
)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("runs/base", "runs/base"),
        ("box:reviews-en", "box:reviews-en"),
        ("scratch", "scratch"),
        ("/home/me/runs/base", "base"),
        ("/home/me/runs/base/bundle", "base"),
        ("~/runs/base", "base"),
        ("../secret/base", "base"),
    ],
)
def test_the_name_for_others_has_no_folder_of_this_machine(given: str, name: str) -> None:
    assert shared_name(given) == name


def test_a_checkpoint_in_a_folder_cannot_be_taken_for_a_name_of_the_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models" / "mini").mkdir(parents=True)
    assert shared_name("hf:models/mini") == "hf:mini"
    assert shared_name("hf:owner/mini") == "hf:owner/mini"
    assert shared_name(f"hf:{tmp_path / 'models' / 'mini'}") == shared_name("hf:/other/mini") == "hf:mini"


def test_names_of_several_paths_have_as_few_folders_as_make_them_different() -> None:
    given = ["/x/a/one", "/x/b/one/bundle", "/y/b/one", "/z/two", "own/two", "box:two", "hf:/x/three", "hf:/y/three"]
    names = ["a/one", "x/b/one", "y/b/one", "two", "own/two", "box:two", "hf:x/three", "hf:y/three"]
    assert shared_names(given) == dict(zip(given, names, strict=True))
    assert shared_names(["/one", "/x/one"]) == {"/one": "one", "/x/one": "x/one"}
    assert shared_names(["/x/one", "/x/one/bundle"]) == {"/x/one": "one", "/x/one/bundle": "one"}


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder, a home folder and another one, each with a file."""
    for name in ("here", "home", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "train.csv").touch()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    return tmp_path


def test_a_path_of_a_recipe_names_no_home_folder_and_still_finds_the_file_from_every_folder(places: Path) -> None:
    given = {"data": {"train": str(places / "here" / "train.csv"), "test": str(places / "home" / "train.csv")},
             "corpus": [str(places / "other" / "train.csv"), "movies", "-"], "separator": "/"}  # fmt: skip
    shown = home_paths(given)
    assert shown == {
        "data": {"train": given["data"]["train"], "test": "~/train.csv"},
        "corpus": given["corpus"],
        "separator": "/",
    }
    assert expanded_paths(shown) == given


def test_a_path_in_a_record_is_relative_to_the_current_folder_or_to_home(places: Path) -> None:
    found = [local_path(str(places / name / "train.csv")) for name in ("here", "home", "other")]
    assert found == ["train.csv", "~/train.csv", "../other/train.csv"]
    assert local_path("/no/such/folder/file") == "/no/such/folder/file"


def test_names_and_records_have_no_query_of_a_web_address() -> None:
    signed = "HTTPS://host/rows.csv?Signature=secret#part"
    assert shared_name(signed) == "HTTPS://host/rows.csv"
    assert shared_name("s3://bucket/what?.csv") == "s3://bucket/what?.csv"
    argv = ["headswap", "pretrain", f"a.txt,{signed}", f"--corpus={signed}"]
    shown = "HTTPS://host/rows.csv?..."
    assert local_command(argv) == ["headswap", "pretrain", f"a.txt,{shown}", f"--corpus={shown}"]
    assert shown_addresses({"corpus": [signed, 3]}) == {"corpus": [shown, 3]}


def test_a_recorded_command_has_no_absolute_path(places: Path) -> None:
    train = places / "home" / "train.csv"
    argv = ["/opt/venv/bin/headswap", "finetune", "--train", str(train), f"--test={train}", "--seed=1"]
    assert local_command(argv) == ["headswap", "finetune", "--train", "~/train.csv", "--test=~/train.csv", "--seed=1"]
