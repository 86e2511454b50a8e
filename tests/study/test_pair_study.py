"""Studies of pairs of texts, with classes and with values: both texts are read, compared and reported."""

import json
from pathlib import Path
from typing import Any

import pytest

from answers import answers_of, asked, write_csv
from headswap.cli.exit_codes import run
from headswap.core.errors import SettingError
from headswap.core.settings import load_recipe
from headswap.finetuning.prediction_file import Predictions, ValuePredictions, load_predictions, text_ids
from headswap.study.jobs.answer_runs import read_arm_answers
from headswap.study.report.write import write_report
from headswap.study.row_export import export_rows
from headswap.study.setup.arms import read_arms
from headswap.study.setup.config import StudyRecipe
from headswap.study.statistics.baseline_runs import add_baselines
from headswap.study.statistics.runs import read_runs, read_study
from study_fixture import done_here, planned, runs_of, write_data
from task_data import paired, write_rows


def pair_sections(folder: Path, *, task: str = "classify", **study: Any) -> dict[str, Any]:
    """The sections of a small study of pairs; one training pair is in test, and one text of test is in the corpus."""
    sections = write_data(folder)
    for role, count, seed in (("train", 240, 1), ("test", 60, 2)):
        rows = [row | {"text": f"{row['text']} mark {seed} {n}"} for n, row in enumerate(paired(count, seed=seed))]
        if task == "regress":
            rows = [row | {"label": 3.0 if row["label"] == "pos" else 1.0 + len(row["text"]) % 2} for row in rows]
        rows = [{"first": row["text"], "second": row["text_pair"], "label": row["label"]} for row in rows]
        write_rows(folder / f"{role}.jsonl", rows)
    lines = (folder / "test.jsonl").read_text(encoding="utf-8").splitlines()
    with (folder / "train.jsonl").open("a", encoding="utf-8") as file:
        file.write(f"{lines[0]}\n")
    with (folder / "corpus.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"text": json.loads(lines[1])["first"]}) + "\n")
    sections["data"] |= {"task": task, "text_column": "first", "text_pair_column": "second"}
    constant = "majority" if task == "classify" else "mean"
    small = {"arms": (constant, "tfidf", "pairs", "scratch", "pretrained"), "budgets": ("220",), "seeds": 3}
    sections["study"] |= small | {"metric": "accuracy" if task == "classify" else "pearson"} | study
    return sections


@pytest.fixture(scope="module", params=["classify", "regress"])
def done(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished study."""
    folder = tmp_path_factory.mktemp(request.param)
    done_here(folder / "study", pair_sections(folder / "files", task=request.param))
    return folder / "study"


def test_a_study_of_pairs_is_reported_in_pairs(done: Path, tmp_path: Path) -> None:
    report = write_report(read_study(done), tmp_path)
    assert report.results.unit == "pair"
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "60 test pairs" in text
    assert "test texts" not in text
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "texts per run" not in html
    assert "number of pairs" in html, "pairs alone is the name of an arm"
    assert "A pair overlaps with a pair if both of its texts do." in html
    assert "test texts" not in html
    dropped = json.loads((done / "data" / "prepared.json").read_text(encoding="utf-8"))
    assert dropped["dropped"]["train"] == 1
    assert dropped["dropped"]["corpus"] >= 1
    assert any("have a text that is also in a pair of the test set" in note for note in dropped["notes"])


def test_models_and_baselines_read_both_texts(done: Path) -> None:
    rows = [json.loads(line) for line in (done / "data" / "test.jsonl").read_text(encoding="utf-8").splitlines()]
    expected = text_ids([f"{row['text']}\x1d{row['text_pair']}" for row in rows])
    for name in ("tfidf-220-seed1", "pairs-220-seed1", "scratch-220-seed1", "pretrained-220-seed1"):
        kept = load_predictions(runs_of(done, name)[0])
        assert (kept.text_ids == expected).all()
    # The label is that of the second text, which shares no word with the label of the first.
    texts = [json.loads(line)["text"] for line in (done / "data" / "unlabelled.jsonl").read_text().splitlines()]
    train = [json.loads(line) for line in (done / "data" / "train.jsonl").read_text(encoding="utf-8").splitlines()]
    assert {row["text_pair"] for row in train} & set(texts), "the second texts are texts for adapting a base"
    assert not {text for row in rows for text in (row["text"], row["text_pair"])} & set(texts)


def test_runs_of_pairs_are_compared_with_the_same_baselines(done: Path) -> None:
    study = add_baselines(read_runs(runs_of(done, *(f"scratch-220-seed{seed}" for seed in (1, 2, 3)))))
    assert study.unit == "pair"
    assert study.texts is not None
    assert " | " in study.texts[0]
    made = load_predictions(runs_of(done, "tfidf-220-seed1")[0])
    (again,) = [run.predictions for run in study.runs if (run.arm, run.seed) == ("tfidf", 1)]
    if isinstance(made, Predictions):
        assert isinstance(again, Predictions)
        assert again.probabilities == pytest.approx(made.probabilities)
    else:
        assert isinstance(made, ValuePredictions)
        assert isinstance(again, ValuePredictions)
        assert again.values == pytest.approx(made.values)


def test_the_command_compares_runs_by_the_metric_that_they_were_trained_by(
    done: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [str(path) for path in runs_of(done, "scratch-220-seed1", "scratch-220-seed2")]
    assert run(["compare", *folders, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    metric = "accuracy" if done.parent.name.startswith("classify") else "pearson"
    assert (found["metric"], found["unit"]) == (metric, "pair")
    assert found["arms"][1:] == ["tfidf", "pairs", "scratch"]
    kept = load_predictions(Path(folders[0])).scores()[metric]
    assert next(cell["values"]["1"] for cell in found["cells"] if cell["arm"] == "scratch") == pytest.approx(kept)


@pytest.mark.usefixtures("no_figures")
def test_the_command_reads_answers_to_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sections = pair_sections(tmp_path / "files", arms=("majority", "scratch"), seeds=2, corpus=())
    done_here(tmp_path / "out", sections)
    test = asked(tmp_path / "out", sections)
    write_csv(tmp_path / "a.csv", answers_of(test, num_wrong=5))
    numbers = [
        {"row": number, "text": row["text"], "text_pair": row["text_pair"], "prediction": "pos"}
        for number, row in enumerate(test, start=1)
    ]
    write_csv(tmp_path / "b.csv", numbers)
    files = [f"{name}={tmp_path / f'{name}.csv'}" for name in "ab"]
    columns = ["--text-column", "first", "--text-pair-column", "second"]
    of_test = ["--test", str(tmp_path / "files" / "test.jsonl"), *columns]
    written = ["--metric", "macro-f1", "--out", str(tmp_path / "compared"), "--json"]
    assert run(["compare", *files, *of_test, *written]) == 0
    alone = json.loads(capsys.readouterr().out)
    assert (alone["arms"], alone["unit"], alone["metric"]) == (["a", "b"], "pair", "macro_f1")
    report = (tmp_path / "compared" / "report.md").read_text(encoding="utf-8")
    assert "60 test pairs" in report
    assert "--text-pair-column second" in report
    assert "--metric macro-f1" in report
    runs = [str(path) for path in runs_of(tmp_path / "out", "scratch-220-seed1", "scratch-220-seed2")]
    assert run(["compare", *runs, files[0], *of_test, "--json"]) == 0
    with_runs = json.loads(capsys.readouterr().out)
    assert next(cell["mean"] for cell in with_runs["cells"] if cell["arm"] == "a") == pytest.approx(55 / 60)
    write_csv(tmp_path / "b.csv", [row | {"text_pair": "another text"} for row in numbers])
    assert run(["compare", *files, *of_test]) == 2
    assert "the text is not that of row '1', '2', '3'" in capsys.readouterr().err


def test_arms_for_single_texts_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="is for single texts, and this study is of pairs"):
        read_arms(load_recipe(StudyRecipe, None, pair_sections(tmp_path, arms=("scratch", "consistency:pretrained"))))


def test_rows_for_another_system_have_both_texts_and_its_answers_are_read(tmp_path: Path) -> None:
    sections = pair_sections(tmp_path / "files", arms=("majority",), seeds=1)
    rows = export_rows(out=tmp_path / "out", sections=sections)
    test = [json.loads(line) for line in (rows.folder / "test.jsonl").read_text(encoding="utf-8").splitlines()]
    assert set(test[0]) == {"row", "text", "text_pair"}
    write_rows(tmp_path / "llm.jsonl", [{"row": row["row"], "prediction": "pos"} for row in test])
    sections["study"]["arms"] = ("majority", f"llm={tmp_path / 'llm.jsonl'}")
    recipe, prepared, _ = planned(tmp_path / "out", sections | {"study": sections["study"] | {"arms": ("majority",)}})
    arms = read_arms(load_recipe(StudyRecipe, None, sections))
    answers = read_arm_answers(arms, prepared, ["220"], recipe, tmp_path / "out" / "data" / "test.jsonl")
    assert answers["llm"].cells[None, 0].probabilities[:, 1].tolist() == [1.0] * 60


def test_rows_for_another_system_are_for_classifiers(tmp_path: Path) -> None:
    sections = pair_sections(tmp_path / "files", task="regress")
    with pytest.raises(SettingError, match="another classifier, and this study is of the task regress"):
        export_rows(out=tmp_path / "out", sections=sections)


def test_the_columns_of_a_study_of_pairs_are_checked(tmp_path: Path) -> None:
    sections = pair_sections(tmp_path / "files")
    sections["data"]["tokens_column"] = "words"
    with pytest.raises(SettingError, match="tokens_column cannot be set"):
        planned(tmp_path / "out", sections)
