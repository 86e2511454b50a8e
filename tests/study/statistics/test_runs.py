"""Reading the runs of a study, and single runs for a comparison: never across test sets."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from headswap.core.errors import InputError, SettingError
from headswap.finetuning.prediction_file import Predictions
from headswap.study.report.write import make_report
from headswap.study.statistics.runs import arm_names, compared_metric, read_runs, read_study
from headswap.tasks.choose import named_task
from study_fixture import (
    runs_of,
)


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


def settings_of(**changes: object) -> dict[str, object]:
    """The settings of a run, flattened."""
    every = {
        "model.base": "runs/base",
        "training.learning_rate": 1e-3,
        "training.batch_size": 16,
        "head.pooling": "mean",
    }
    return every | {name.replace("__", "."): value for name, value in changes.items()}


def test_an_arm_is_named_by_as_few_settings_as_tell_it_apart() -> None:
    runs = {
        Path("a"): settings_of(),
        Path("b"): settings_of(training__learning_rate=1e-4, training__batch_size=8, head__pooling="last"),
        Path("c"): settings_of(training__learning_rate=1e-4, training__batch_size=8, head__pooling="max"),
    }
    names = {"a": "pretrained pooling=mean", "b": "pretrained pooling=last", "c": "pretrained pooling=max"}
    assert arm_names(runs) == {Path(path): name for path, name in names.items()}


def test_runs_with_equal_settings_share_a_name_and_bases_that_are_called_alike_do_not() -> None:
    same = {Path(name): settings_of() for name in "ab"}
    assert arm_names(same) == {Path("a"): "pretrained", Path("b"): "pretrained"}
    bases = ["/x/one/bundle", "/x/two/bundle", "/y/one/bundle", "scratch"]
    found = arm_names({Path(base): settings_of(model__base=base) for base in bases})
    assert list(found.values()) == ["/x/one/bundle", "two", "/y/one/bundle", "scratch"]
