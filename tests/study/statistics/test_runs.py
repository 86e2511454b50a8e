"""Reading the runs of a study, and single runs for a comparison: never across test sets."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import headswap as hs
from headswap.core.errors import InputError, SettingError
from headswap.finetuning.prediction_file import Predictions
from headswap.study.report.write import make_report
from headswap.study.statistics.runs import compared_metric, read_runs, read_study
from headswap.study.statistics.study_files import planned_runs, read_plan
from headswap.tasks.choose import named_task
from study_fixture import runs_of
from task_data import paired, write_rows
from tiny import ONE_THREAD


def test_a_folder_without_a_study_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no study"):
        read_study(tmp_path)


def test_the_metric_of_a_comparison_is_the_one_that_all_runs_were_trained_by() -> None:
    regress = named_task("regress")
    assert compared_metric(None, regress, ["pearson", "pearson"]) == "pearson"
    assert compared_metric(None, regress, ["pearson", "r2"]) == "r2"
    assert compared_metric(None, regress, ["mse", "mse"]) == "r2", "differences of errors have no validated test"
    assert compared_metric(None, regress, [None]) == "r2", "runs of an earlier version"
    assert compared_metric("Pearson", regress, ["r2"]) == "pearson"


def test_with_drawn_test_rows_the_report_says_which_file_a_row_number_refers_to(
    study_copy: Path, tmp_path: Path
) -> None:
    (expected,) = [
        "--num-test 60: the numbers of test rows in the error analysis and the disagreements count the rows of "
        "data/test.jsonl, which has the drawn ones; those in the overlap check count all rows of the test set."
    ]
    assert not any("--num-test" in sentence for sentence in make_report(read_study(study_copy)).caveats)
    recipe = study_copy / "study.toml"
    before = recipe.read_text()
    recipe.write_text(before.replace("[study]\n", "[study]\nnum_test = 60\n"))
    assert recipe.read_text() != before
    assert expected in make_report(read_study(study_copy)).caveats


def test_different_test_sets_are_refused(finished_study: Path, tmp_path: Path) -> None:
    first, second = runs_of(finished_study, "scratch-220-seed1-", "pretrained-220-seed1-")
    changed = tmp_path / "changed"
    shutil.copytree(second, changed)
    kept = Predictions.load(changed)
    Predictions(kept.probabilities, kept.targets, kept.labels, kept.text_ids[::-1].copy()).save(changed)
    with pytest.raises(InputError, match="was scored on another test set"):
        read_runs([first, changed])
    targets = np.roll(kept.targets, 1)
    Predictions(kept.probabilities, targets, kept.labels, kept.text_ids).save(changed)
    with pytest.raises(InputError, match="was scored on another test set"):
        read_runs([first, changed])


def test_two_runs_of_the_same_arm_budget_and_seed_are_refused(finished_study: Path, tmp_path: Path) -> None:
    (run,) = runs_of(finished_study, "scratch-220-seed1-")
    shutil.copytree(run, tmp_path / "again")
    with pytest.raises(InputError, match="are the same arm, budget and seed"):
        read_runs([run, tmp_path / "again"])


def test_other_epochs_with_as_many_labels_are_another_arm(finished_study: Path, tmp_path: Path) -> None:
    first, second = runs_of(finished_study, "scratch-220-seed1-", "scratch-220-seed2-")
    assert read_runs([first, second]).arms == ["scratch"]
    longer = tmp_path / "longer"
    shutil.copytree(second, longer)
    recipe = longer / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("num_train_epochs = 2.0", "num_train_epochs = 5.0"))
    assert len(read_runs([first, longer]).arms) == 2


def changed_run(run: Path, folder: Path, old: str, new: str) -> Path:
    """A copy of a run whose recipe has another setting."""
    shutil.copytree(run, folder)
    recipe = (folder / "recipe.toml").read_text()
    assert old in recipe
    (folder / "recipe.toml").write_text(recipe.replace(old, new))
    return folder


def test_other_models_from_scratch_are_not_pooled_and_may_have_the_same_seeds(
    finished_study: Path, tmp_path: Path
) -> None:
    """Beside a trained base, too; over seeds and numbers of labels each shape is one arm."""
    first, second, base = runs_of(finished_study, "scratch-220-seed1-", "scratch-220-seed2-", "pretrained-220-seed1-")
    small = runs_of(finished_study, "scratch-40-seed1-")[0]
    size = next(line for line in (first / "recipe.toml").read_text().splitlines() if line.startswith("hidden_size"))
    wide = "hidden_size = 512"
    same_seed = changed_run(first, tmp_path / "same", size, wide)
    other_seed = changed_run(second, tmp_path / "other", size, wide)
    fewer_labels = changed_run(small, tmp_path / "fewer", size, wide)
    one, other = "scratch", "scratch hidden_size=512"
    for copy in (same_seed, other_seed, fewer_labels):
        found = read_runs([first, copy, base])
        assert [run.arm for run in found.runs] == [one, other, "pretrained"], copy
    found = read_runs([first, second, small, same_seed, other_seed, fewer_labels, base])
    assert found.arms == [one, other, "pretrained"]


def test_the_dropout_of_a_base_is_compared_beside_scratch(finished_study: Path, tmp_path: Path) -> None:
    scratch, base = runs_of(finished_study, "scratch-220-seed1-", "pretrained-220-seed1-")
    copy = changed_run(base, tmp_path / "copy", "\ndropout = 0.1", "\ndropout = 0.5")
    assert read_runs([scratch, base, copy]).arms == ["scratch", "pretrained", "pretrained dropout=0.5"]


def test_runs_of_a_study_have_its_arms_and_bases(finished_study: Path, tmp_path: Path) -> None:
    run, other = runs_of(finished_study, "pretrained-220-seed1-", "pretrained-220-seed2-")
    study = tmp_path / "study"
    same = Path(shutil.copytree(run, study / "runs" / run.name))
    changed = changed_run(other, study / "runs" / other.name, "\ndropout = 0.1", "\ndropout = 0.5")
    assert read_runs([same, changed]).arms == ["pretrained", "pretrained dropout=0.5"], "run folders without a plan"
    shutil.copy(finished_study / "plan.json", study)
    found = read_runs([same, changed])
    assert found.arms == ["pretrained"]
    plan = read_plan(finished_study)
    (base,) = {entry["base"] for entry in plan["entries"] if entry["arm"] == "pretrained"}
    assert [one.base for one in found.runs] == [base, base]
    (study / "plan.json").write_text("{")
    assert planned_runs([same]) == {}


def test_runs_of_two_studies_with_the_same_settings_are_one_arm_and_are_compared_with_scratch(
    finished_study: Path, tmp_path: Path
) -> None:
    """The recipes have absolute paths, so every study has other ones."""
    found = []
    for name, seeds in (("a", (1,)), ("b", (2, 3))):
        shutil.copytree(finished_study, tmp_path / name)
        wanted = [f"{arm}-40-seed{seed}-" for arm in ("scratch", "pretrained") for seed in seeds]
        found += runs_of(tmp_path / name, *wanted)
        for file in (tmp_path / name / "runs").glob("*/recipe.toml"):
            file.write_text(file.read_text().replace(str(finished_study), str(tmp_path / name)))
    recipe = (found[0] / "recipe.toml").read_text()
    assert f'train = "{tmp_path / "a" / "data" / "train.jsonl"}"' in recipe
    study = read_runs(found)
    assert sorted(study.arms) == ["pretrained", "scratch"]
    (row,) = make_report(study).results.comparisons
    assert (row.arm, row.other, row.count) == ("pretrained", "scratch", 3)
    again = runs_of(tmp_path / "b", "scratch-40-seed1-")
    with pytest.raises(InputError, match="are the same arm, budget and seed"):
        read_runs([*found, *again])


def test_without_scratch_the_first_arm_is_the_reference(finished_study: Path, tmp_path: Path) -> None:
    (run,) = runs_of(finished_study, "pretrained-220-seed1-")
    other = tmp_path / "other"
    shutil.copytree(run, other)
    recipe = other / "recipe.toml"
    assert "batch_size = 16" in recipe.read_text()
    recipe.write_text(recipe.read_text().replace("batch_size = 16", "batch_size = 8"))
    report = make_report(read_runs([run, other]))
    assert len(report.results.comparisons) == 1
    (sentence,) = report.headline
    assert "too few seeds (1; at least 3 are needed). Observed difference: +0.0 points." in sentence


def test_other_folders_than_fine_tuning_runs_are_refused(finished_study: Path, tmp_path: Path) -> None:
    (run, base) = runs_of(finished_study, "scratch-220-seed1-", "base-")
    with pytest.raises(SettingError, match="is a run of headswap pretrain; compare takes runs of headswap finetune"):
        read_runs([run, base])
    with pytest.raises(InputError, match="is not a run folder"):
        read_runs([run, tmp_path])


def test_pairs_of_an_earlier_version_are_the_arm_that_reads_them_as_one_sequence(
    tiny_runs: Path, tmp_path: Path
) -> None:
    train, test = (write_rows(tmp_path / f"{name}.jsonl", paired(40, seed=seed)) for name, seed in (("a", 1), ("b", 2)))
    given: dict[str, Any] = {"train": train, "test": test, "text_pair_column": "text_pair", "max_steps": 1}
    encodings = {"earlier": "joined", "now": "joined", "new": "separate"}
    for seed, (name, encoding) in enumerate(encodings.items()):
        out = tmp_path / name
        hs.finetune(tiny_runs / "base", **given, **ONE_THREAD, pair_encoding=encoding, seed=seed, out=out)
    recipe = tmp_path / "earlier/recipe.toml"
    lines = recipe.read_text(encoding="utf-8").splitlines()
    newer = ("pair_encoding", "head_norm")
    recipe.write_text("\n".join(line for line in lines if not line.startswith(newer)), encoding="utf-8")
    found = read_runs([tmp_path / name for name in encodings])
    arms = {run.folder.name: run.arm for run in found.runs}
    assert arms["earlier"] == arms["now"] != arms["new"]
