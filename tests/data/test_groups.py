"""Groups: read from a column, never separated by a split, and reported where two sets share one."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cli_calls import call_wrong
from headswap.cli.exit_codes import run
from headswap.core.errors import HeadswapError, InputError, SettingError
from headswap.core.settings import load_recipe
from headswap.data.config import LabelledSettings
from headswap.data.groups import check_group_column, grouped_split, shared_group_sentences
from headswap.data.labelled import read_labelled
from headswap.data.records import Example
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.splits import read_splits


def examples(groups: list[str], *, source: str = "tests") -> list[Example]:
    labels = ("neg", "pos")
    return [Example(f"text {at}", labels[at % 2], source, at, group=group) for at, group in enumerate(groups)]


def write(file: Path, rows: list[dict[str, Any]]) -> Path:
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return file


def rows(num: int, num_groups: int, *, first: int = 0) -> list[dict[str, Any]]:
    stream = np.random.default_rng(first)
    return [
        {
            "text": f"text {first} {at}",
            "label": ("neg", "pos")[at % 2],
            "author": f"a{first + stream.integers(num_groups)}",
        }
        for at in range(num)
    ]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("num_groups", [2, 9, 60, 400])
def test_a_split_separates_no_group_and_keeps_size_and_shares(seed: int, num_groups: int) -> None:
    stream = np.random.default_rng(seed)
    every = examples([f"g{number}" for number in stream.integers(num_groups, size=500)])
    rest, held = grouped_split(every, 0.2, seed, strata=[one.label for one in every])
    assert sorted([*rest, *held]) == list(range(500))
    assert not {every[row].group for row in rest} & {every[row].group for row in held}
    if num_groups >= 9:
        assert abs(len(held) - 100) <= 500 / num_groups + 2
        shares = Counter(every[row].label for row in held)
        assert abs(shares["pos"] / len(held) - 0.5) < 0.15
    assert (rest, held) == grouped_split(every, 0.2, seed, strata=[one.label for one in every])


def test_a_label_is_never_held_out_completely() -> None:
    every = examples(["a"] * 10 + ["b"] * 10 + ["c"] * 2)
    every += [Example("rare", "rare", "tests", 30, group="c")]
    rest, _ = grouped_split(every, 0.2, 1, strata=[one.label for one in every])
    assert "rare" in {every[row].label for row in rest}


def test_a_set_whose_groups_are_its_labels_cannot_be_split() -> None:
    every = [Example("x", label, "set.csv", at, group=label) for at, label in enumerate(["a", "b"] * 5)]
    with pytest.raises(InputError, match=r"set.csv cannot be split by group: every group has all texts of some label"):
        grouped_split(every, 0.2, 1, strata=[one.label for one in every])


def test_finetuning_holds_out_whole_groups(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    train = write(tmp_path / "train.jsonl", rows(300, 25))
    test = write(tmp_path / "test.jsonl", rows(40, 3) + rows(10, 1, first=900))
    for budget in ({}, {"num_train": 210}):
        data = {"train": str(train), "test": str(test), "group_column": "author", **budget}
        splits = read_splits(load_recipe(FinetuneRecipe, None, {"data": data}))
        assert len(splits.validation) == pytest.approx(0.2 * budget.get("num_train", 300), rel=0.4)
        assert not {one.group for one in splits.train} & {one.group for one in splits.validation}
    splits.warn_of_overlap()
    assert "of train" in caplog.text
    assert "also in test, so the scores on test are too high" in caplog.text


def test_shared_groups_are_counted() -> None:
    sets = {"train": examples(["a", "a", "b", "c"]), "test": examples(["a", "d"]), "validation": examples(["c", "d"])}
    assert shared_group_sentences(sets) == {
        ("train", "test"): "1 group of train (2 texts) is also in test",
        ("validation", "test"): "1 group of validation (1 text) is also in test",
        ("train", "validation"): "1 group of train (1 text) is also in validation",
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"author": ""}, "line 2: the group is blank"),
        ({"author": None}, "line 2: the group is null"),
        ({"author": ["x"]}, "line 2: the group is a list"),
    ],
)
def test_an_empty_group_is_an_error(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    file = write(tmp_path / "train.jsonl", [rows(4, 2)[0], rows(4, 2)[1] | changes, *rows(4, 2)[2:]])
    with pytest.raises(InputError, match=message):
        read_labelled(str(file), text_column="text", label_column="label", group_column="author")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"group_column": "writer"}, "has no column 'writer'"),
        ({"group_column": "one"}, "all 6 texts are of one group"),
        ({"group_column": "label"}, "group_column and label_column are both 'label'"),
        ({"group_column": "text"}, "group_column and text_column are both 'text'"),
        ({"group_column": "author", "task": "tag"}, "group_column cannot be set: the task tag does not read it"),
        ({"group_column": "author", "train": "movies"}, "movies is a named data set without groups"),
    ],
)
def test_a_group_column_that_cannot_be_used_is_an_error(tmp_path: Path, data: dict[str, Any], message: str) -> None:
    file = write(tmp_path / "train.jsonl", [row | {"one": "x"} for row in rows(6, 3)])
    recipe = load_recipe(FinetuneRecipe, None, {"data": {"train": str(file), **data}})
    with pytest.raises(HeadswapError, match=message):
        read_splits(recipe)


def test_numbers_are_groups_too(tmp_path: Path) -> None:
    file = write(tmp_path / "train.jsonl", [row | {"author": at // 2} for at, row in enumerate(rows(4, 2))])
    found = read_labelled(str(file), text_column="text", label_column="label", group_column="author")
    assert [one.group for one in found] == ["0", "0", "1", "1"]


def test_without_a_group_column_nothing_is_checked() -> None:
    check_group_column(LabelledSettings(text_column="label"))
    with pytest.raises(SettingError, match="text_pair_column are both 'x'"):
        check_group_column(LabelledSettings(group_column="x", text_pair_column="x"))


def test_doctor_reports_groups_in_two_sets(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    train, test = (write(tmp_path / f"{name}.jsonl", rows(60, 6)) for name in ("train", "test"))
    write(test, [row | {"text": f"other {row['text']}"} for row in rows(60, 6)])
    code = run(["doctor", "--train", str(train), "--test", str(test), "--group-column", "author", "--json"])
    found = json.loads(capsys.readouterr().out)
    messages = [one["message"] for one in found["findings"] if one["check"] == "groups"]
    assert code == 1
    assert "6 groups of train (60 texts) are also in test, so the scores on test are too high." in messages
    assert "60 texts of 6 groups." in messages
    assert run(["doctor", "--train", str(train), "--group-column", "who"]) == 1
    assert "has no column 'who'" in capsys.readouterr().out
    assert "are both 'label'" in call_wrong(capsys, "doctor", "--train", train, "--group-column", "label")
