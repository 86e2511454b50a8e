"""A study of a multi-label classifier: label sets in the predictions, the arms, the tests and the report."""

import json
from pathlib import Path
from typing import Any

import pytest

from headswap.cli.exit_codes import run
from headswap.core.errors import SettingError
from headswap.core.settings import load_recipe
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.label_set_predictions import LabelSetPredictions
from headswap.finetuning.prediction_file import load_predictions
from headswap.finetuning.splits import read_splits
from headswap.metrics.multilabel import multilabel_metrics
from headswap.study.report.write import make_report, write_report
from headswap.study.setup.arms import read_arms
from headswap.study.setup.budgets import data_section
from headswap.study.setup.config import StudyRecipe
from headswap.study.setup.default_arms import with_default_arms
from headswap.study.statistics.baseline_runs import add_baselines
from headswap.study.statistics.runs import read_runs, read_study
from headswap.tasks.multilabel import MultiLabelTask
from study_fixture import done_here, planned, runs_of, write_data
from task_data import multilabelled, write_rows


def multilabel_sections(folder: Path, **study: Any) -> dict[str, Any]:
    """The sections of a small study of praised things; the labels are joined by | in the files."""
    sections = write_data(folder)
    for role, count, seed in (("train", 240, 1), ("test", 60, 2)):
        rows = [
            {"text": f"{row['text']} mark {seed} {n}", "labels": "|".join(row["label"])}
            for n, row in enumerate(multilabelled(count, seed=seed))
        ]
        write_rows(folder / f"{role}.jsonl", rows)
    sections["data"] |= {"task": "multilabel", "label_column": "labels", "label_separator": "|"}
    small = {"arms": ("majority", "tfidf", "scratch"), "metric": "micro_f1", "budgets": ("40", "220"), "seeds": 3}
    sections["study"] |= {"corpus": ()} | small | study
    return sections


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished study."""
    folder = tmp_path_factory.mktemp("multilabel")
    done_here(folder / "study", multilabel_sections(folder / "files"))
    return folder / "study"


def test_a_study_scores_every_arm_by_micro_f1(done: Path) -> None:
    results = make_report(read_study(done)).results
    cells = {(cell.arm, cell.labels): cell for cell in results.cells}
    assert {arm for arm, _ in cells} == {"majority", "tfidf", "scratch"}
    assert results.baselines == {40: "tfidf", 220: "tfidf"}
    kept = load_predictions(runs_of(done, "tfidf-220-seed2")[0])
    assert isinstance(kept, LabelSetPredictions)
    expected = multilabel_metrics(kept.targets, kept.predicted, kept.labels)
    assert cells["tfidf", 220].values[2] == pytest.approx(expected["micro_f1"])
    assert cells["tfidf", 220].measures["macro_f1"] == pytest.approx(
        sum(
            multilabel_metrics(one.targets, one.predicted, one.labels)["macro_f1"]
            for seed in (1, 2, 3)
            if isinstance(one := load_predictions(runs_of(done, f"tfidf-220-seed{seed}")[0]), LabelSetPredictions)
        )
        / 3
    )
    assert cells["tfidf", 220].mean > cells["majority", 220].mean
    assert cells["majority", 220].low is None
    assert [row.verdict for row in results.comparisons if (row.arm, row.labels) == ("scratch", 220)]


def test_the_report_speaks_of_micro_f1_and_has_f1_per_label(done: Path, tmp_path: Path) -> None:
    write_report(read_study(done), tmp_path)
    for name in ("report.md", "report.html"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert "Test micro-F1" in text
        assert "one logistic regression per label" in text
        assert "C, selected by cross-validation on all labels of the budget: tfidf" in text
        assert "The threshold of probabilities, selected by cross-validation" in text
        assert "label actor" in text
        for word in ("accuracy", "Accuracy", "alibration", "classes"):
            assert word not in text, f"{word} in {name}"
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert (results["task"], results["metric"], results["errors"]["metric"]) == ("multilabel", "micro_f1", "f1")
    assert list(results["cells"][0]["measures"]) == ["micro_f1", "macro_f1", "precision", "recall", "exact_match"]
    parts = {(part["by"], part["name"]) for part in results["errors"]["slices"]}
    assert ("label", "film") in parts
    assert any(by == "words" for by, _ in parts)


def test_runs_are_compared_with_the_baselines_of_the_task(done: Path) -> None:
    runs = runs_of(done, "scratch-220-seed1", "scratch-220-seed2", "scratch-220-seed3")
    study = add_baselines(read_runs(runs))
    assert (study.metric, study.arms) == ("micro_f1", ["majority", "tfidf", "scratch"])
    made = load_predictions(runs_of(done, "tfidf-220-seed1")[0])
    assert isinstance(made, LabelSetPredictions)
    (again,) = [run.predictions for run in study.runs if (run.arm, run.seed) == ("tfidf", 1)]
    assert isinstance(again, LabelSetPredictions)
    assert (again.predicted == made.predicted).all()


def test_the_command_compares_runs_by_either_metric_of_the_task(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [str(path) for path in runs_of(done, "scratch-220-seed1", "scratch-220-seed2")]
    kept = load_predictions(Path(folders[0])).scores()
    for flags, metric in (([], "micro_f1"), (["--metric", "macro-f1"], "macro_f1")):
        assert run(["compare", *folders, *flags, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["metric"], found["arms"]) == (metric, ["majority", "tfidf", "scratch"])
        scores = {cell["arm"]: cell["values"]["1"] for cell in found["cells"]}
        assert scores["scratch"] == pytest.approx(kept[metric])


def test_subsets_are_nested_and_keep_the_labels_of_the_whole_set(tmp_path: Path) -> None:
    recipe, prepared, _ = planned(tmp_path / "out", multilabel_sections(tmp_path / "files", budgets=("3", "40")))
    small, large = (
        read_splits(
            load_recipe(FinetuneRecipe, None, {"data": data_section(recipe, prepared, budget), "training": {"seed": 2}})
        )
        for budget in ("3", "40")
    )
    assert small.labels == large.labels == prepared.labels
    assert [example.text for example in large.train][:3] == [example.text for example in small.train]
    assert {name for example in large.train for name in example.labels} == set(prepared.labels)


def test_a_new_version_of_the_task_has_new_jobs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finished fine-tunings with other thresholds are not compared with new ones."""
    sections = multilabel_sections(tmp_path / "files")
    before = planned(tmp_path / "out", sections)[2].jobs
    monkeypatch.setattr(MultiLabelTask, "version", MultiLabelTask.version + 1)
    after = planned(tmp_path / "again", sections)[2].jobs
    assert {job.kind for id, job in after.items() if id not in before} == {"finetune"}
    assert not [id for id, job in after.items() if job.kind == "finetune" and id in before]


def test_the_default_arms_are_those_of_the_task(tmp_path: Path) -> None:
    sections = multilabel_sections(tmp_path, arms=None)
    del sections["study"]["metric"]
    recipe = with_default_arms(load_recipe(StudyRecipe, None, sections))
    assert recipe.study.metric == "micro_f1"
    assert (recipe.study.arms or ())[:3] == ("majority", "tfidf", "scratch")
    assert "lsa" not in (recipe.study.arms or ())


@pytest.mark.parametrize(
    ("arm", "sentence"),
    [
        ("nbsvm", "'nbsvm' is not a baseline of the task multilabel, which has majority, tfidf"),
        ("consistency:pretrained", "is for classifiers, and this study is of the task multilabel"),
        ("llm=answers.csv", "is for classifiers, and this study is of the task multilabel"),
    ],
)
def test_arms_of_other_tasks_are_refused(tmp_path: Path, arm: str, sentence: str) -> None:
    with pytest.raises(SettingError, match=sentence):
        read_arms(load_recipe(StudyRecipe, None, multilabel_sections(tmp_path, arms=(arm, "scratch"))))
