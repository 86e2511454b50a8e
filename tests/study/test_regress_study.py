"""A study of a regression: values instead of classes in the predictions, the arms, the tests and the report."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headswap.baselines.tfidf import joined_text
from headswap.core.errors import InputError, SettingError
from headswap.core.settings import load_recipe
from headswap.data.records import Example, pair_as_text
from headswap.finetuning.prediction_file import ValuePredictions, load_predictions, text_ids
from headswap.metrics.regression import regression_metrics
from headswap.study.report.write import make_report, write_report
from headswap.study.setup.arms import read_arms
from headswap.study.setup.config import StudyRecipe
from headswap.study.setup.default_arms import with_default_arms
from headswap.study.statistics.baseline_runs import add_baselines
from headswap.study.statistics.design import default_primary
from headswap.study.statistics.runs import ScoredRun, StudyRuns, read_runs, read_study
from study_fixture import done_here, planned, runs_of, write_data
from task_data import valued, write_rows


def regress_sections(folder: Path, **study: Any) -> dict[str, Any]:
    """The sections of a small study of prices."""
    sections = write_data(folder)
    for role, count, seed in (("train", 240, 1), ("test", 60, 2)):
        rows = [row | {"text": f"{row['text']} mark {seed} {n}"} for n, row in enumerate(valued(count, seed=seed))]
        write_rows(folder / f"{role}.jsonl", rows)
    sections["data"]["task"] = "regress"
    small = {"arms": ("mean", "tfidf", "scratch"), "metric": "r2", "budgets": ("220",), "seeds": 3}
    sections["study"] |= {"corpus": ()} | small | study
    return sections


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished study of a regression."""
    folder = tmp_path_factory.mktemp("regress")
    done_here(folder / "study", regress_sections(folder / "files"))
    return folder / "study"


def test_a_study_of_a_regression_scores_every_arm_by_r2(done: Path) -> None:
    report = make_report(read_study(done))
    cells = {(cell.arm, cell.labels): cell for cell in report.results.cells}
    assert {arm for arm, _ in cells} == {"mean", "tfidf", "scratch"}
    assert report.results.baselines == {220: "tfidf"}
    folder = runs_of(done, "tfidf-220-seed2")[0]
    kept = load_predictions(folder)
    assert isinstance(kept, ValuePredictions)
    expected = regression_metrics(kept.targets, kept.values)
    assert cells["tfidf", 220].values[2] == pytest.approx(expected["r2"])
    assert cells["tfidf", 220].measures["mse"] > 0
    assert cells["tfidf", 220].mean > cells["mean", 220].mean
    assert (cells["mean", 220].low, cells["mean", 220].measures["pearson"]) == (None, 0.0)


def test_the_report_of_a_regression_speaks_of_r2_and_not_of_accuracy(done: Path, tmp_path: Path) -> None:
    write_report(read_study(done), tmp_path)
    for name in ("report.md", "report.html"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert "Test R2" in text
        assert "The penalty of ridge regression (alpha), selected by cross-validation" in text
        for word in ("accuracy", "macro-F1", "classes", "logistic", "alibration", "Confidence"):
            assert word not in text, f"{word} in {name}"
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert (results["task"], results["metric"]) == ("regress", "r2")
    assert set(results["cells"][0]["measures"]) == {"mse", "mae", "pearson", "spearman", "r2"}
    assert "mean_accuracy" not in results["cells"][0]


def test_runs_of_a_regression_are_compared_with_its_baselines(done: Path) -> None:
    runs = runs_of(done, "scratch-220-seed1", "scratch-220-seed2", "scratch-220-seed3")
    study = add_baselines(read_runs(runs))
    assert (study.metric, study.arms) == ("r2", ["mean", "tfidf", "scratch"])
    made = load_predictions(runs_of(done, "tfidf-220-seed1")[0])
    assert isinstance(made, ValuePredictions)
    (again,) = [run.predictions for run in study.runs if (run.arm, run.seed) == ("tfidf", 1)]
    assert isinstance(again, ValuePredictions)
    assert again.values == pytest.approx(made.values)


def test_both_texts_of_a_pair_count_once_in_the_baselines_of_a_comparison() -> None:
    pair = Example("a b", "1.0", "file", 1, text_pair="c")
    assert joined_text(pair_as_text(pair)).split() == ["a", "b", "c"]


def synthetic(metric: str, noise: dict[str, float]) -> StudyRuns:
    """Arms whose predictions are the true values plus noise of a given size; three seeds."""
    stream = np.random.default_rng(3)
    targets = stream.choice([1.0, 2.0, 3.0, 8.0, 9.0, 10.0], 400)
    ids = text_ids([str(number) for number in range(400)])
    runs = []
    for arm, size in noise.items():
        for seed in (1, 2, 3):
            made = ValuePredictions(targets + stream.normal(0, size, 400), targets, ids)
            result = {"seconds": 1.0}
            runs.append(ScoredRun(arm, "100", 100, seed, Path(f"{arm}-{seed}"), made, result, [], f"rows {seed}"))
    arms = list(noise)
    return StudyRuns(None, runs, arms, metric=metric, task="regress", primary=default_primary(arms))


@pytest.mark.parametrize("metric", ["r2", "pearson"])
def test_the_arm_with_smaller_errors_is_better(metric: str) -> None:
    (row,) = make_report(synthetic(metric, {"scratch": 4.0, "pretrained": 2.0})).results.comparisons
    assert (row.verdict, row.mean > 0) == ("better", True)
    (row,) = make_report(synthetic(metric, {"scratch": 2.0, "pretrained": 4.0})).results.comparisons
    assert row.verdict == "worse"
    (row,) = make_report(synthetic(metric, {"scratch": 3.0, "pretrained": 3.0})).results.comparisons
    assert row.verdict == "none"


def test_a_negative_r2_is_not_clipped() -> None:
    (cell,) = make_report(synthetic("r2", {"scratch": 8.0})).results.cells
    assert cell.mean < -1
    assert cell.low is not None
    assert cell.low < cell.mean


def test_task_and_metric_choose_the_default_arms(tmp_path: Path) -> None:
    sections = regress_sections(tmp_path, arms=None)
    del sections["study"]["metric"]
    recipe = with_default_arms(load_recipe(StudyRecipe, None, sections))
    assert recipe.study.metric == "r2"
    assert (recipe.study.arms or ())[:3] == ("mean", "tfidf", "scratch")


@pytest.mark.parametrize(
    ("task", "arm", "sentence"),
    [
        ("regress", "nbsvm", "'nbsvm' is not a baseline of the task regress, which has mean, tfidf"),
        ("classify", "mean", "'mean' is not a baseline of the task classify"),
        ("regress", "llm=answers.csv", "is for classifiers, and this study is of the task regress"),
    ],
)
def test_arms_of_another_task_are_refused(tmp_path: Path, task: str, arm: str, sentence: str) -> None:
    sections = regress_sections(tmp_path, arms=(arm, "scratch"))
    sections["data"]["task"] = task
    with pytest.raises(SettingError, match=sentence):
        read_arms(load_recipe(StudyRecipe, None, sections))


def test_the_metric_is_part_of_the_jobs_only_if_it_is_not_the_default(tmp_path: Path) -> None:
    _, _, by_r2 = planned(tmp_path / "a", regress_sections(tmp_path / "files"))
    _, _, by_pearson = planned(tmp_path / "b", regress_sections(tmp_path / "files", metric="pearson"))
    metrics = [{job.sections["training"].get("metric") for job in plan.jobs.values()} for plan in (by_r2, by_pearson)]
    assert metrics == [{None}, {"pearson"}]
    assert not set(by_r2.jobs) & set(by_pearson.jobs)


def test_damaged_values_are_an_error(tmp_path: Path) -> None:
    ids = text_ids(["a", "b"])
    ValuePredictions(np.array([1.0, np.nan]), np.array([1.0, 2.0]), ids).save(tmp_path)
    with pytest.raises(InputError, match="values must be finite numbers"):
        load_predictions(tmp_path)
    ValuePredictions(np.array([1.0]), np.array([1.0, 2.0]), ids).save(tmp_path)
    with pytest.raises(InputError, match="the arrays have the shapes"):
        load_predictions(tmp_path)
