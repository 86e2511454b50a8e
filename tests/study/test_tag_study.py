"""A study of taggers: many short sentences, 72 tags, long sentences in windows, tags that only the test set has."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headswap.bundle.bundle import Bundle
from headswap.cli.exit_codes import run
from headswap.core.errors import InputError, SettingError
from headswap.core.settings import load_recipe
from headswap.finetuning.config import FinetuneRecipe
from headswap.finetuning.prediction_file import load_predictions
from headswap.finetuning.splits import read_splits
from headswap.finetuning.tag_predictions import TagPredictions
from headswap.metrics.entities import tagging_metrics
from headswap.study.report.write import make_report, write_report
from headswap.study.setup.arms import read_arms
from headswap.study.setup.budgets import data_section
from headswap.study.setup.config import StudyRecipe
from headswap.study.setup.default_arms import with_default_arms
from headswap.study.statistics.baseline_runs import add_baselines
from headswap.study.statistics.runs import read_runs, read_study
from headswap.tasks.tag import TagTask, WordRow
from study_fixture import done_here, planned, runs_of, write_data
from task_data import tagged, write_rows


def short_rows(count: int, seed: int) -> list[dict[str, Any]]:
    """Short sentences with 36 types of entities (72 tags and O), most of which are rare, and some long sentences."""
    stream = np.random.default_rng(seed)
    rows = []
    for number in range(count):
        tokens, tags = [], []
        for _ in range(12 if number % 40 == 0 else 1):
            kind = int(36 * stream.random() ** 3)
            tokens += ["go", "to", f"place{kind}", f"part{kind}", f"n{seed}x{number}"]
            tags += ["O", "O", f"B-t{kind}", f"I-t{kind}", "O"]
        rows.append({"tokens": tokens, "tags": tags})
    return rows


def tag_sections(folder: Path, **study: Any) -> dict[str, Any]:
    """The sections of a small study; the longest sentences have more tokens than `max_length`."""
    sections = write_data(folder)
    write_rows(folder / "train.jsonl", short_rows(400, seed=1))
    write_rows(folder / "test.jsonl", short_rows(80, seed=2))
    arms = ("majority", "linear-tagger", "scratch", "pretrained")
    small = {"arms": arms, "metric": "f1", "budgets": ("30", "220"), "seeds": 3}
    sections["data"]["task"] = "tag"
    sections["study"] |= small | study
    sections["pretrain"]["objective"] = "masked"
    return sections


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished study."""
    folder = tmp_path_factory.mktemp("tag")
    done_here(folder / "study", tag_sections(folder / "files"))
    return folder / "study"


def test_a_study_scores_every_arm_by_the_f1_of_entities(done: Path) -> None:
    results = make_report(read_study(done)).results
    cells = {(cell.arm, cell.labels): cell for cell in results.cells}
    assert {arm for arm, _ in cells} == {"majority", "linear-tagger", "scratch", "pretrained"}
    assert len(results.labels) == 73
    kept = load_predictions(runs_of(done, "majority-220-seed2")[0])
    assert isinstance(kept, TagPredictions)
    expected = tagging_metrics(*kept.sentences(), kept.labels)["f1"]
    assert cells["majority", 220].values[2] == pytest.approx(expected)
    assert cells["majority", 220].low is not None, "the most frequent tag of each word is no constant prediction"
    scores = {
        arm: [json.loads((run / "result.json").read_text(encoding="utf-8"))["cross_validation"] for run in runs]
        for arm in ("majority", "linear-tagger")
        if (runs := runs_of(done, *(f"{arm}-220-seed{seed}" for seed in (1, 2, 3))))
    }
    assert results.baselines[220] == max(scores, key=lambda arm: sum(scores[arm])), "the better one on train"
    assert results.unit == "sentence"


def test_long_sentences_are_read_in_windows_and_no_word_is_left_out(done: Path) -> None:
    (folder,) = runs_of(done, "scratch-220-seed1")
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    assert result["test"]["num_unread_words"] == 0
    bundle, task = Bundle.load(folder / "bundle"), TagTask()
    test = load_recipe(FinetuneRecipe, folder / "recipe.toml").data
    assert test.test is not None
    encoded = task.encode_inputs(task.read(test.test, test), bundle)
    assert max(len(row.ids) for row in encoded.rows) <= 24
    words: dict[int, list[int]] = {}
    windows = Counter(row.example for row in encoded.rows)
    for row in encoded.rows:
        assert isinstance(row, WordRow)
        words.setdefault(row.example, []).extend(row.words.tolist())
    long = [number for number, example in enumerate(encoded.examples) if len(example.tokens) == 60]
    assert len(long) == 2
    assert all(windows[number] > 2 for number in long)
    assert all(words[number] == list(range(len(one.tokens))) for number, one in enumerate(encoded.examples))
    kept = load_predictions(folder)
    assert isinstance(kept, TagPredictions)
    assert kept.lengths.tolist() == [len(example.tokens) for example in encoded.examples]


def test_the_report_speaks_of_sentences_and_has_f1_per_type(done: Path, tmp_path: Path) -> None:
    write_report(read_study(done), tmp_path)
    for name in ("report.md", "report.html"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert "Test F1" in text
        assert "80 test sentences" in text
        assert "type t0" in text
        assert "; 36 entity types." in text
        assert "Label subsets are nested: each" in text
        assert "Label subsets are random samples of sentences" in text
        assert "stratified" not in text
        assert "C 0.3 at all budgets" in text
        for word in ("test texts", "alibration", "classes", "TF-IDF"):
            assert word not in text, f"{word} in {name}"
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert (results["task"], results["unit"]) == ("tag", "sentence")
    assert list(results["cells"][0]["measures"]) == ["f1", "precision", "recall", "macro_f1", "accuracy"]


def test_runs_are_compared_with_the_baseline_of_the_task(done: Path) -> None:
    study = add_baselines(read_runs(runs_of(done, *(f"scratch-220-seed{seed}" for seed in (1, 2, 3)))))
    assert (study.metric, study.arms, study.unit) == ("f1", ["majority", "linear-tagger", "scratch"], "sentence")
    made = load_predictions(runs_of(done, "majority-220-seed1")[0])
    (again,) = [run.predictions for run in study.runs if (run.arm, run.seed) == ("majority", 1)]
    assert isinstance(made, TagPredictions)
    assert isinstance(again, TagPredictions)
    assert (again.predicted == made.predicted).all()
    assert make_report(study).results.comparisons


def test_the_command_compares_runs_of_taggers(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folders = [str(path) for path in runs_of(done, "scratch-220-seed1", "pretrained-220-seed1")]
    assert run(["compare", *folders, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["metric"], found["unit"]) == ("f1", "sentence")
    assert found["arms"] == ["majority", "linear-tagger", "scratch", "pretrained"]
    scores = {cell["arm"]: cell["values"]["1"] for cell in found["cells"]}
    expected = [load_predictions(Path(folder)).scores()["f1"] for folder in folders]
    assert [scores["scratch"], scores["pretrained"]] == pytest.approx(expected)
    assert run(["compare", *folders, "--metric", "accuracy"]) == 2
    assert "metric is 'accuracy', but runs of the task tag are compared by 'f1'." in capsys.readouterr().err


def test_a_small_subset_has_the_tags_of_the_whole_training_set(tmp_path: Path) -> None:
    recipe, prepared, _ = planned(tmp_path / "out", tag_sections(tmp_path / "files", budgets=("10", "30")))
    small, large = (
        read_splits(
            load_recipe(FinetuneRecipe, None, {"data": data_section(recipe, prepared, budget), "training": {"seed": 1}})
        )
        for budget in ("10", "30")
    )
    assert len(small.labels) == 73
    assert small.labels == large.labels
    assert [example.text for example in large.train][:10] == [example.text for example in small.train]


def test_a_tag_that_only_test_has_is_an_error_or_is_scored_as_one(tmp_path: Path) -> None:
    sections = tag_sections(tmp_path / "files", arms=("majority", "scratch"), budgets=("30",), seeds=1, corpus=())
    rows = short_rows(40, seed=2)
    rows[3]["tags"][2:4] = ["B-new", "I-new"]
    write_rows(tmp_path / "files" / "test.jsonl", rows)
    with pytest.raises(InputError, match=r"'B-new' of the test set(.|\n)*pass --unseen-labels wrong"):
        planned(tmp_path / "out", sections)
    sections["data"]["unseen_labels"] = "wrong"
    done_here(tmp_path / "out", sections)
    kept = load_predictions(runs_of(tmp_path / "out", "scratch-30-seed1")[0])
    assert isinstance(kept, TagPredictions)
    assert kept.labels[-2:] == ("B-new", "I-new")
    assert not np.isin(kept.predicted, [len(kept.labels) - 2, len(kept.labels) - 1]).any()
    assert kept.counts[:, kept.classes.index("new"), 2].sum() == 1, "the entity counts as true and not found"


def test_a_tag_whose_only_examples_overlap_with_test_is_an_error_before_the_study_starts(tmp_path: Path) -> None:
    sections = tag_sections(tmp_path / "files", arms=("majority",), budgets=("30",), seeds=1, corpus=())
    train, test = short_rows(400, seed=1), short_rows(40, seed=2)
    test[3]["tags"][2:4] = ["B-new", "I-new"]
    write_rows(tmp_path / "files" / "train.jsonl", [*train, test[3]])
    write_rows(tmp_path / "files" / "test.jsonl", test)
    message = r"'B-new' of the test set(.|\n)*The overlap check removed 1 sentence from train(.|\n)*--on-overlap report"
    with pytest.raises(InputError, match=message):
        planned(tmp_path / "out", sections)
    sections["study"]["on_overlap"] = "report"
    planned(tmp_path / "again", sections)


def test_unseen_labels_are_for_tags_only(tmp_path: Path) -> None:
    sections = write_data(tmp_path / "files")
    sections["data"]["unseen_labels"] = "wrong"
    with pytest.raises(SettingError, match="unseen_labels has no effect on the task classify"):
        planned(tmp_path / "out", sections)


def test_the_default_arms_are_the_baselines_scratch_and_the_bases(tmp_path: Path) -> None:
    sections = tag_sections(tmp_path, arms=None)
    sections["data"].pop("task")
    recipe = with_default_arms(load_recipe(StudyRecipe, None, sections))
    arms = ("majority", "linear-tagger", "scratch", "pretrained", "adapted")
    assert (recipe.data.task, recipe.study.arms) == ("tag", arms)


def test_plain_tags_are_counted_word_by_word(tmp_path: Path) -> None:
    sections = tag_sections(tmp_path / "files", arms=("majority",), budgets=("30",), seeds=1, corpus=())
    for role, seed in (("train", 1), ("test", 2)):
        rows = [
            {"tokens": [*row["tokens"], f"{seed}-{n}"], "tags": ["NOUN", *["X"] * len(row["tags"])]}
            for n, row in enumerate(tagged(60, seed=seed))
        ]
        write_rows(tmp_path / "files" / f"{role}.jsonl", rows)
    done_here(tmp_path / "out", sections)
    kept = load_predictions(runs_of(tmp_path / "out", "majority-30-seed1")[0])
    assert kept.scores()["f1"] == pytest.approx(kept.scores()["accuracy"])


@pytest.mark.parametrize("arm", ["tfidf", "linear"])
def test_arms_of_other_tasks_are_refused(tmp_path: Path, arm: str) -> None:
    with pytest.raises(
        SettingError, match=r"not a baseline of the task tag, which has majority|needs one vector per example"
    ):
        read_arms(load_recipe(StudyRecipe, None, tag_sections(tmp_path, arms=(arm, "scratch"))))
