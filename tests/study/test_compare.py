"""Comparing runs that were made one by one: arms by their settings, and never across test sets."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from headswap.core.errors import InputError, SettingError
from headswap.finetuning.prediction_file import Predictions
from headswap.study.baseline_runs import add_baselines
from headswap.study.report import commands, tell
from headswap.study.runs import read_runs, read_study


def tuned(study: Path, *names: str) -> list[Path]:
    return [next(path for path in (study / "runs").iterdir() if path.name.startswith(name)) for name in names]


def every(study: Path) -> list[Path]:
    names = [f"{arm}-220-seed{seed}-" for arm in ("scratch", "pretrained") for seed in (1, 2, 3)]
    return tuned(study, *names)


def test_runs_make_the_same_comparison_as_their_study(finished_study: Path) -> None:
    ours = tell(add_baselines(read_runs(every(finished_study))))
    theirs = tell(read_study(finished_study))
    assert ours["arms"] == ["majority", "tfidf", "scratch", "pretrained"]
    for row in theirs["cells"]:
        if row["labels"] == 220:
            assert next(c["values"] for c in ours["cells"] if c["arm"] == row["arm"]) == row["values"]
    tfidf = next(c["values"] for c in ours["cells"] if c["arm"] == "tfidf")
    assert len(tfidf) == 3
    assert len(set(tfidf.values())) == 1, "the same labels, whatever the order in which a seed has them"
    found = next(row for row in ours["comparisons"] if (row["arm"], row["other"]) == ("pretrained", "scratch"))
    other = next(
        r for r in theirs["comparisons"] if (r["arm"], r["other"], r["labels"]) == ("pretrained", "scratch", 220)
    )
    assert (found["mean"], found["low"], found["p"]) == (other["mean"], other["low"], other["p"])


def test_the_command_that_makes_it_again_names_runs_that_are_there(finished_study: Path) -> None:
    command = commands(add_baselines(read_runs(every(finished_study))))
    folders = command.removeprefix("headswap compare ").split()
    assert len(folders) == 6
    assert all(Path(folder).is_dir() for folder in folders)


def test_other_test_sets_are_refused(finished_study: Path, tmp_path: Path) -> None:
    first, second = tuned(finished_study, "scratch-220-seed1-", "pretrained-220-seed1-")
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


def test_labels_that_can_no_longer_be_read_leave_the_baselines_out_with_the_reason(
    finished_study: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "run"
    shutil.copytree(tuned(finished_study, "scratch-220-seed1-")[0], copy)
    told = json.loads((copy / "data.json").read_text())
    (copy / "data.json").write_text(json.dumps(told | {"training set": "other"}))
    material = add_baselines(read_runs([copy]))
    assert material.arms == ["scratch"]
    assert "can no longer be read as they were, so TF-IDF is missing" in material.prepared["notes"][0]


def test_the_same_cell_twice_is_refused(finished_study: Path, tmp_path: Path) -> None:
    (run,) = tuned(finished_study, "scratch-220-seed1-")
    shutil.copytree(run, tmp_path / "again")
    with pytest.raises(InputError, match="are the same arm, budget and seed"):
        read_runs([run, tmp_path / "again"])


def test_as_many_labels_and_other_epochs_are_another_arm(finished_study: Path, tmp_path: Path) -> None:
    first, second = tuned(finished_study, "scratch-220-seed1-", "scratch-220-seed2-")
    assert read_runs([first, second]).arms == ["scratch"]
    longer = tmp_path / "longer"
    shutil.copytree(second, longer)
    recipe = longer / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("num_train_epochs = 2.0", "num_train_epochs = 5.0"))
    assert len(read_runs([first, longer]).arms) == 2


def test_without_scratch_the_first_arm_is_what_others_are_held_against(finished_study: Path, tmp_path: Path) -> None:
    (run,) = tuned(finished_study, "pretrained-220-seed1-")
    other = tmp_path / "other"
    shutil.copytree(run, other)
    recipe = other / "recipe.toml"
    assert "batch_size = 16" in recipe.read_text()
    recipe.write_text(recipe.read_text().replace("batch_size = 16", "batch_size = 8"))
    results = tell(read_runs([run, other]))
    assert len(results["comparisons"]) == 1
    (sentence,) = results["headline"]
    assert "no claim possible with 1 seed, 3 or more are needed. In these runs it is +0.0 points" in sentence
    assert "by the test sample alone" in sentence


def test_what_is_no_fine_tuning_is_refused(finished_study: Path, tmp_path: Path) -> None:
    (run, base) = tuned(finished_study, "scratch-220-seed1-", "base-")
    with pytest.raises(SettingError, match="is a run of headswap pretrain; compare takes fine-tunings"):
        read_runs([run, base])
    with pytest.raises(InputError, match="is not a run folder"):
        read_runs([run, tmp_path])


def test_predictions_survive_saving_and_damage_is_told(tmp_path: Path) -> None:
    made = Predictions(np.eye(2), np.array([0, 1]), ("a", "ü b"), np.array([1, 2**63], dtype="<u8"))
    made.save(tmp_path)
    again = Predictions.load(tmp_path)
    assert again.labels == ("a", "ü b")
    assert again.text_ids.tolist() == [1, 2**63]
    assert again.is_right.all()
    (tmp_path / "predictions.npz").write_bytes(b"PK damaged")
    with pytest.raises(InputError, match=r"predictions.npz cannot be read"):
        Predictions.load(tmp_path)
    (tmp_path / "predictions.npz").unlink()
    with pytest.raises(InputError, match="A fine-tuning writes it where it has a test set"):
        Predictions.load(tmp_path)
