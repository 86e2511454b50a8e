"""Baselines of a comparison are those of a study."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from headswap.cli.exit_codes import run as run_command
from headswap.core.local_paths import local_path
from headswap.core.settings import load_recipe
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.finetune import finetune
from headswap.study.report.write import make_report
from headswap.study.statistics.analysis import analyse
from headswap.study.statistics.baseline_runs import add_baselines
from headswap.study.statistics.runs import read_runs, read_study
from study_fixture import (
    runs_of,
)


def test_a_comparison_has_the_results_of_the_study(finished_study: Path, caplog: pytest.LogCaptureFixture) -> None:
    names = [f"{arm}-220-seed{seed}-" for arm in ("scratch", "pretrained") for seed in (1, 2, 3)]
    with caplog.at_level("INFO", logger="headswap"):
        ours = analyse(add_baselines(read_runs(runs_of(finished_study, *names)))).as_json()
    assert "Fitting the baselines (majority, tfidf) to 3 sets of 220 labels." in caplog.text
    theirs = analyse(read_study(finished_study)).as_json()
    assert ours["arms"] == ["majority", "tfidf", "scratch", "pretrained"]
    for row in theirs["cells"]:
        if row["labels"] == 220:
            assert next(c["values"] for c in ours["cells"] if c["arm"] == row["arm"]) == row["values"]
    tfidf = next(c["values"] for c in ours["cells"] if c["arm"] == "tfidf")
    assert len(tfidf) == 3
    assert len(set(tfidf.values())) == 1, "the same labels in another order"
    for reference in ("tfidf", "scratch"):
        pair = ("pretrained", reference)
        found = next(row for row in ours["comparisons"] if (row["arm"], row["other"]) == pair)
        other = next(r for r in theirs["comparisons"] if (r["arm"], r["other"], r["labels"]) == (*pair, 220))
        assert (found["mean"], found["low"], found["p"]) == (other["mean"], other["low"], other["p"])


def test_changed_labels_leave_the_baselines_out_with_one_sentence_per_reason(
    finished_study: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    copies = []
    for run in runs_of(finished_study, *(f"scratch-220-seed{seed}-" for seed in (1, 2, 3))):
        copies.append(Path(shutil.copytree(run, tmp_path / run.name)))
    checksums = json.loads((copies[0] / "data.json").read_text())
    (copies[0] / "data.json").write_text(json.dumps(checksums | {"training set": "other"}))
    for copy in copies[1:]:
        recipe = (copy / "recipe.toml").read_text()
        (copy / "recipe.toml").write_text(recipe.replace("/data/train.jsonl", "/data/gone.jsonl"))
    runs = add_baselines(read_runs(copies))
    assert set(runs.arms) == {run.arm for run in runs.runs}
    assert "tfidf" not in runs.arms
    changed, unread = runs.prepared["notes"]
    names = [local_path(str(copy)) for copy in copies]
    assert changed == (
        f"The labelled sets of {names[0]} (220 labels, seed 1) have changed since, so this run is not compared with "
        "baselines."
    )
    assert unread == (
        "The labelled sets of 2 runs cannot be read, so these runs are not compared with baselines. The first of them "
        f"is {names[1]} (220 labels, seed 2)."
    )
    assert sum("gone.jsonl" in record.getMessage() for record in caplog.records) == 1


def tuned(run: Path, folder: Path, sections: dict[str, Any]) -> Path:
    """The fine-tuning of a run with other settings."""
    finetune(
        out=folder, config=run / "recipe.toml", sections=sections, with_baselines=False, reloads_in_fresh_process=False
    )
    return folder


@pytest.fixture(scope="module")
def two_training_sets(finished_study: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Runs of two seeds on clean rows, and of the same seeds on rows of which 20 are those of the test set."""
    clean = runs_of(finished_study, "scratch-220-seed1-", "scratch-220-seed2-")
    folder = tmp_path_factory.mktemp("overlapping")
    data = load_recipe(FinetuneRecipe, clean[0] / "recipe.toml").data
    assert data.train is not None
    assert data.test is not None
    rows, of_test = (Path(file).read_text().splitlines() for file in (data.train, data.test))
    (folder / "mixed.jsonl").write_text("\n".join([*of_test[:20], *rows[20:]]) + "\n")
    sections = {"data": {"train": str(folder / "mixed.jsonl")}}
    return [*clean, *(tuned(run, folder / run.name, sections) for run in clean)]


CLEAN, MIXED = "scratch", "scratch train=mixed.jsonl"


def test_the_overlap_of_every_training_set_is_stated_whatever_the_order_of_the_runs(
    two_training_sets: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    for paths, arms in ((two_training_sets, [CLEAN, MIXED]), (two_training_sets[::-1], [MIXED, CLEAN])):
        assert run_command(["compare", *map(str, paths), "--json", "--no-texts"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert found["arms"] == ["majority", "tfidf", *arms]
        told = [sentence for sentence in found["caveats"] if "are also in the train set" in sentence]
        assert told
        assert all(sentence.startswith(f"Training set of 220 labels of {MIXED}: ") for sentence in told)
    alone = add_baselines(read_runs(two_training_sets[2:])).prepared["notes"]
    assert alone
    assert all(sentence.startswith("Training set of 220 labels: ") for sentence in alone), "all arms have it"


def test_a_baseline_is_compared_only_with_arms_that_have_its_labels(
    two_training_sets: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(["compare", *map(str, two_training_sets), "--json", "--no-texts"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {row["arm"] for row in found["comparisons"] if row["other"] == "tfidf"} == {CLEAN}
    expected = (
        f"At 220 labels, {MIXED} was trained on other labelled texts than the baselines (seed 1, 2), so these runs "
        "are not compared with them."
    )
    assert expected in found["caveats"]


def test_arms_that_hold_out_other_parts_of_the_same_labels_have_the_same_baselines(
    finished_study: Path, tmp_path: Path
) -> None:
    (run,) = runs_of(finished_study, "scratch-220-seed1-")
    before = load_recipe(FinetuneRecipe, run / "recipe.toml").data.hold_out_from
    sections = {"data": {"hold_out_from": 100 if before > 100 else 1_000}}
    other = tuned(run, tmp_path / "run", sections)
    found = make_report(add_baselines(read_runs([run, other]))).results
    assert len({run_folder_rows(path) for path in (run, other)}) == 2
    assert {row.arm for row in found.comparisons if row.other == "tfidf"} == set(found.arms[2:])
    assert not any("other labelled texts" in note for note in found.notes)


def run_folder_rows(path: Path) -> str:
    """The checksum of the training set of a run, without what it holds out."""
    return str(json.loads((path / "data.json").read_text())["training set"])
