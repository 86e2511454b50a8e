"""Renaming labels: names change in config, card and manifest; weights and predictions stay the same."""

import json
from pathlib import Path

import pytest

from bundles import make_bundle
from headswap.bundle.bundle import Bundle
from headswap.bundle.check import check_bundle
from headswap.bundle.rename_labels import parse_changes, rename_labels, renamed_labels
from headswap.core.errors import HeadswapError, InputError, SettingError
from headswap.tokens.tokenizer import Tokenizer

pytestmark = pytest.mark.usefixtures("one_thread")


def test_labels_are_renamed_and_everything_else_stays(saved: Path) -> None:
    config = json.loads((saved / "config.json").read_text())
    config["reload_check"] = {"examples": 3}
    (saved / "config.json").write_text(json.dumps(config))
    (saved / "manifest.json").unlink()
    weights = (saved / "model.safetensors").read_bytes()
    rename_labels(saved, {"bad": "good", "good": "bad", "middling": "so-so"})
    assert Bundle.load(saved).labels == ("good", "bad", "so-so")
    after = json.loads((saved / "config.json").read_text())
    assert after["label2id"] == {"good": 0, "bad": 1, "so-so": 2}
    names = ("id2label", "label2id")
    assert {k: v for k, v in after.items() if k not in names} == {k: v for k, v in config.items() if k not in names}
    assert (saved / "model.safetensors").read_bytes() == weights
    assert "labels: good, bad, so-so" in (saved / "README.md").read_text()
    assert all(check.is_sound for check in check_bundle(saved))
    assert [entry.name for entry in saved.parent.iterdir()] == ["bundle"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"bed": "x"}, "'bed' is not a label of this model. Did you mean 'bad'\\?"),
        ({"bad": "good"}, "'bad', 'good' would all be called 'good'"),
        ({"bad": " "}, "cannot be the new name of 'bad'"),
        ({"bad": "x "}, "cannot be the new name of 'bad'"),
    ],
)
def test_wrong_names_are_refused_and_nothing_is_written(saved: Path, changes: dict[str, str], words: str) -> None:
    before = {file.name: file.read_bytes() for file in saved.iterdir()}
    with pytest.raises(SettingError, match=words):
        rename_labels(saved, changes)
    assert {file.name: file.read_bytes() for file in saved.iterdir()} == before


@pytest.mark.parametrize("head", ["lm", "span"])
def test_a_model_without_labels_is_refused(tokenizer: Tokenizer, head: str) -> None:
    with pytest.raises(InputError, match="which has no labels to rename"):
        renamed_labels(make_bundle(tokenizer, head), {})


def test_a_folder_with_files_of_the_user_is_refused(saved: Path) -> None:
    (saved / "notes.txt").write_text("mine")
    with pytest.raises(HeadswapError, match=r"notes\.txt"):
        rename_labels(saved, {"bad": "poor"})
    assert Bundle.load(saved).labels == ("bad", "good", "middling")


def test_arguments_are_split_at_the_label() -> None:
    assert parse_changes(["a=b", "x=y=z"], ["a", "x=y"]) == {"a": "b", "x=y": "z"}
    with pytest.raises(SettingError, match="'ab' is not OLD=NEW"):
        parse_changes(["ab"], ["a"])
    with pytest.raises(SettingError, match="'a' is renamed twice"):
        parse_changes(["a=b", "a=c"], ["a"])
