"""A study of question answerers: long contexts in windows, unanswerable questions, several questions per context."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headswap.bundle.bundle import Bundle
from headswap.cli.exit_codes import run
from headswap.core.errors import InputError
from headswap.core.settings import load_recipe
from headswap.finetuning.answer_predictions import AnswerPredictions
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.prediction_file import load_predictions
from headswap.finetuning.splits import read_splits
from headswap.study.report.write import make_report, write_report
from headswap.study.setup.budgets import data_section
from headswap.study.setup.config import StudyRecipe
from headswap.study.setup.default_arms import with_default_arms
from headswap.study.statistics.baseline_runs import add_baselines
from headswap.study.statistics.groups import groups_of_test
from headswap.study.statistics.runs import read_runs, read_study
from headswap.tasks.span import ContextRow, SpanTask
from study_fixture import done_here, planned, runs_of, write_data
from task_data import questions, write_rows

NEAREST = "nearest sentence"


def span_rows(count: int, seed: int) -> list[dict[str, Any]]:
    """Questions about long contexts, a third without an answer; two after each other share a context."""
    rows = [
        row | {"context": f"{row['context']} note {seed} {number} ."}
        for number, row in enumerate(questions(count, seed=seed, unanswerable=0.33, padding=5))
    ]
    for first, second in zip(rows[::2], rows[1::2], strict=True):
        name = first["question"].split()[2]
        second |= {"question": f"where has {name} a home ?", "context": first["context"], "answers": first["answers"]}
    return rows


def span_sections(folder: Path, **study: Any) -> dict[str, Any]:
    """The sections of a small study; contexts have about 50 tokens, windows at most 24."""
    sections = write_data(folder)
    write_rows(folder / "train.jsonl", span_rows(240, seed=1))
    write_rows(folder / "test.jsonl", span_rows(60, seed=2))
    small = {
        "arms": (NEAREST, "linear-answers", "scratch"),
        "metric": "f1",
        "budgets": ("40", "220"),
        "seeds": 3,
        "corpus": (),
    }
    sections["data"]["task"] = "span"
    sections["study"] |= small | study
    return sections


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished study."""
    folder = tmp_path_factory.mktemp("span")
    done_here(folder / "study", span_sections(folder / "files"))
    return folder / "study"


def test_a_study_scores_every_arm_by_the_f1_of_answers(done: Path) -> None:
    study = read_study(done)
    results = make_report(study).results
    cells = {(cell.arm, cell.labels): cell for cell in results.cells}
    assert {arm for arm, _ in cells} == {NEAREST, "linear-answers", "scratch"}
    assert results.baselines.keys() == {40, 220}
    assert set(results.baselines.values()) <= {NEAREST, "linear-answers"}
    folder = runs_of(done, "scratch-220-seed2")[0]
    kept = load_predictions(folder)
    assert isinstance(kept, AnswerPredictions)
    test = json.loads((folder / "result.json").read_text(encoding="utf-8"))["test"]
    assert cells["scratch", 220].values[2] == pytest.approx(test["f1"])
    assert kept.scores()["f1_unanswerable"] == pytest.approx(test["f1_unanswerable"])
    assert set(cells["scratch", 220].measures) == {"f1", "exact_match", "f1_answerable", "f1_unanswerable"}
    assert results.unit == "question"
    groups = groups_of_test(study)
    assert groups is not None
    assert int(groups.max()) + 1 == 30, "questions about one context are one unit of resampling"


def test_long_contexts_are_read_in_windows_and_no_word_is_left_out(done: Path) -> None:
    (folder,) = runs_of(done, "scratch-220-seed1")
    bundle, task = Bundle.load(folder / "bundle"), SpanTask()
    test = load_recipe(FinetuneRecipe, folder / "recipe.toml").data
    assert test.test is not None
    encoded = task.encode_inputs(task.read(test.test, test), bundle)
    assert max(len(row.ids) for row in encoded.rows) <= 24
    windows = Counter(row.example for row in encoded.rows)
    assert min(windows.values()) > 1
    read = [np.zeros(len(example.context), dtype=bool) for example in encoded.examples]
    for row in encoded.rows:
        assert isinstance(row, ContextRow)
        for start, end in zip(row.starts, row.ends, strict=True):
            read[row.example][max(start, 0) : max(end, 0)] = True
    for example, seen in zip(encoded.examples, read, strict=True):
        letters = np.array([not letter.isspace() for letter in example.context])
        assert seen[letters].all(), example.context


def test_the_report_speaks_of_questions_and_contexts(done: Path, tmp_path: Path) -> None:
    write_report(read_study(done), tmp_path)
    for name in ("report.md", "report.html"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert "60 test questions" in text
        assert "The test questions belong to 30 contexts." in text
        assert "in 30 contexts that are the unit of resampling" in text
        assert "questions: unanswerable" in text
        assert "stratified" not in text
        assert "ranks the parts of a context, C 0.3 at all budgets" in text
        for word in ("test texts", "alibration", "classes", "TF-IDF", "accuracy"):
            assert word not in text, f"{word} in {name}"


def test_runs_are_compared_with_the_nearest_sentence(done: Path) -> None:
    study = add_baselines(read_runs(runs_of(done, *(f"scratch-220-seed{seed}" for seed in (1, 2, 3)))))
    assert (study.metric, study.arms) == ("f1", [NEAREST, "linear-answers", "scratch"])
    made = load_predictions(runs_of(done, "nearest_sentence-220-seed1")[0])
    (again,) = [run.predictions for run in study.runs if (run.arm, run.seed) == (NEAREST, 1)]
    assert isinstance(made, AnswerPredictions)
    assert isinstance(again, AnswerPredictions)
    assert (again.f1 == made.f1).all()
    assert make_report(study).results.comparisons


def test_the_command_compares_runs_by_exact_match(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [str(path) for path in runs_of(done, "scratch-220-seed1", "scratch-220-seed2")]
    assert run(["compare", *folders, "--metric", "exact-match", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["metric"], found["unit"]) == ("exact_match", "question")
    assert found["arms"] == [NEAREST, "linear-answers", "scratch"]
    kept = load_predictions(Path(folders[0]))
    assert isinstance(kept, AnswerPredictions)
    scores = {cell["arm"]: cell["values"]["1"] for cell in found["cells"]}
    assert scores["scratch"] == pytest.approx(kept.exact_match.mean())


def test_training_questions_about_contexts_of_test_are_removed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """12 training questions about one context of test, and one about another; the texts of the questions differ."""
    sections = span_sections(tmp_path / "files")
    train, test = span_rows(240, seed=1), span_rows(60, seed=2)
    shared = [row | {"question": f"which of {number} ?"} for number, row in enumerate([test[0]] * 12 + [test[30]])]
    write_rows(tmp_path / "files" / "train.jsonl", [*shared, *train])
    _, prepared, _ = planned(tmp_path / "out", sections)
    assert prepared.dropped == {"train": 13, "unlabelled": 10}, "10 questions are asked in test too"
    assert prepared.num_rows["train"] == 240
    assert "13 questions of train have a context that also occurs in test (13 exactly, 0 nearly)." in caplog.text


def test_subsets_are_nested_and_keep_the_share_of_unanswerable_questions(tmp_path: Path) -> None:
    recipe, prepared, _ = planned(tmp_path / "out", span_sections(tmp_path / "files", budgets=("60", "120")))
    small, large = (
        read_splits(
            load_recipe(FinetuneRecipe, None, {"data": data_section(recipe, prepared, budget), "training": {"seed": 1}})
        )
        for budget in ("60", "120")
    )
    assert [example.text for example in large.train][:60] == [example.text for example in small.train]
    rows = [json.loads(line) for line in Path(prepared.train).read_text(encoding="utf-8").splitlines()]
    share = np.mean([not row["answers"] for row in rows])
    assert abs(np.mean([not example.answers for example in small.train]) - share) <= 1 / 60


def test_a_wrong_offset_is_an_error_or_is_moved(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sections = span_sections(tmp_path / "files")
    rows = span_rows(240, seed=1)
    row = next(row for row in rows if row["answers"]["text"])
    row["answers"]["answer_start"][0] += 1
    write_rows(tmp_path / "files" / "train.jsonl", rows)
    with pytest.raises(InputError, match="is not at character"):
        planned(tmp_path / "out", sections)
    sections["data"]["answer_offsets"] = "nearest"
    _, prepared, _ = planned(tmp_path / "out", sections)
    assert "2 answers were not at the given character and were moved" in caplog.text, "of the two that share a context"
    kept = [json.loads(line) for line in Path(prepared.train).read_text(encoding="utf-8").splitlines()]
    for one in kept:
        for answer in one["answers"]:
            assert one["context"][answer["answer_start"] :].startswith(answer["text"])


def test_the_installed_base_is_no_default_arm_and_the_study_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recipe = with_default_arms(load_recipe(StudyRecipe, None, span_sections(tmp_path, arms=None)))
    assert recipe.study.arms == (NEAREST, "linear-answers", "scratch")
    assert "adapted is left out: the task span was not measured with box:reviews-en-2" in caplog.text
