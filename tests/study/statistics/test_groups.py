"""A study with groups: shared groups are dropped, reported or stop it, and runs record the group of each test text."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headswap.baselines.classify import tfidf_probabilities
from headswap.core.errors import InputError, SettingError
from headswap.core.settings import load_recipe
from headswap.data.records import Example
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.prediction_file import Predictions
from headswap.finetuning.splits import read_splits
from headswap.study.statistics import groups as study_groups
from headswap.study.statistics.runs import read_study
from study_fixture import done_here, planned, sections_of, synthetic_study


def with_groups(tmp_path: Path, *, first_test: int = 100, **study: Any) -> dict[str, Any]:
    """The sections of a study whose rows have authors: 12 in train, 5 in test."""
    sections = sections_of(tmp_path, **study)
    for role, number, first in (("train", 12, 0), ("test", 5, first_test)):
        file = Path(sections["data"][role])
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        lines = [row | {"author": f"a{first + at // 2 % number}"} for at, row in enumerate(lines)]
        file.write_text("".join(f"{json.dumps(row)}\n" for row in lines))
    sections["data"]["group_column"] = "author"
    return sections


def rows(file: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in Path(file).read_text().splitlines()]


def test_groups_of_test_are_dropped_from_train(tmp_path: Path) -> None:
    """a10 and a11 are in both."""
    _, prepared, _ = planned(tmp_path / "out", with_groups(tmp_path, first_test=10, budgets=("40",)))
    assert {row["group"] for row in rows(prepared.train)} == {f"a{number}" for number in range(10)}
    assert {row["group"] for row in rows(prepared.test)} == {f"a{number}" for number in range(10, 15)}
    assert prepared.dropped["train"] == 40
    note = "2 groups of train (40 texts) are also in test, and their texts were removed from train."
    assert prepared.notes == (note,)
    assert planned(tmp_path / "out", with_groups(tmp_path, first_test=10, budgets=("40",)))[1] == prepared, (
        "found again"
    )


def test_shared_groups_are_reported_or_stop_the_study(tmp_path: Path) -> None:
    _, prepared, _ = planned(tmp_path / "out", with_groups(tmp_path, first_test=10, on_overlap="report"))
    assert prepared.num_rows["train"] == 240
    assert prepared.notes == ("2 groups of train (40 texts) are also in test.",)
    with pytest.raises(InputError, match=r"2 groups of train \(40 texts\) are also in test. Nothing was trained"):
        planned(tmp_path / "other", with_groups(tmp_path, first_test=10, on_overlap="stop"))
    everything = with_groups(tmp_path)
    everything["data"]["train"] = everything["data"]["test"]
    with pytest.raises(InputError, match="No training text is left"):
        planned(tmp_path / "all", everything)


def test_a_group_column_that_is_the_label_column_is_an_error(tmp_path: Path) -> None:
    sections = with_groups(tmp_path)
    sections["data"]["group_column"] = "label"
    with pytest.raises(SettingError, match="group_column and label_column are both 'label'"):
        planned(tmp_path / "out", sections)


def test_jobs_split_by_group_and_record_the_group_of_each_test_text(tmp_path: Path) -> None:
    sections = with_groups(tmp_path, seeds=1, budgets=("220",), arms=("tfidf", "scratch"), trials=2)
    plan = done_here(tmp_path / "out", sections)
    for job in plan.jobs.values():
        if job.kind == "finetune":
            splits = read_splits(load_recipe(FinetuneRecipe, None, {"data": job.sections["data"]}))
            assert splits.validation
            assert not {one.group for one in splits.train} & {one.group for one in splits.validation}
    study = read_study(tmp_path / "out")
    found = study_groups.groups_of_test(study)
    names = [row["author"] for row in rows(sections["data"]["test"])]
    assert found is not None
    assert found.dtype == np.int64
    assert len({(name, number) for name, number in zip(names, found.tolist(), strict=True)}) == len(set(names)) == 5
    for run in study.runs:
        assert run.predictions.group_ids is not None
        assert len(run.predictions.group_ids) == 60


def test_without_a_group_column_there_are_no_groups(tmp_path: Path) -> None:
    study = synthetic_study({("scratch", 400): [0.8, 0.7]})
    assert study_groups.groups_of_test(study) is None
    plain, grouped = sections_of(tmp_path / "a"), with_groups(tmp_path / "b")
    jobs = [planned(tmp_path / name, sections)[2].jobs for name, sections in (("x", plain), ("y", grouped))]
    finetunings = [{id for id, job in found.items() if job.kind == "finetune"} for found in jobs]
    assert not finetunings[0] & finetunings[1], "jobs with groups are other jobs"


def test_group_ids_survive_a_file_and_must_fit_the_texts(tmp_path: Path) -> None:
    ids, groups = np.array([1, 2], dtype="<u8"), np.array([7, 7], dtype="<u8")
    Predictions(np.eye(2), np.array([0, 1]), ("a", "b"), ids, groups).save(tmp_path)
    assert Predictions.load(tmp_path).group_ids.tolist() == [7, 7]  # type: ignore[union-attr]
    Predictions(np.eye(2), np.array([0, 1]), ("a", "b"), ids, groups[:1]).save(tmp_path)
    with pytest.raises(InputError, match="group_ids have the shape"):
        Predictions.load(tmp_path)


def test_cross_validation_of_tfidf_separates_no_group(monkeypatch: pytest.MonkeyPatch) -> None:
    from headswap.baselines import linear

    seen: list[Any] = []
    folds_of = linear.make_folds
    monkeypatch.setattr(linear, "make_folds", lambda *given: seen.append(folds_of(*given)) or seen[-1])
    train = [Example(f"text {at % 7}", ("a", "b")[at % 2], "x", at, group=f"g{at // 4}") for at in range(80)]
    tfidf_probabilities(train, train, ["a", "b"])
    assert len(seen[0]) == 5
    for rest, held in seen[0]:
        assert not {train[row].group for row in rest} & {train[row].group for row in held}
