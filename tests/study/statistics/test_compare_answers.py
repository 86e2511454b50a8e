"""`headswap compare` with the answers of other systems, without a study and beside run folders."""

import json
import re
from pathlib import Path

import pytest

from answers import OTHER, answers_of, write_csv
from headswap.cli.exit_codes import run
from headswap.finetuning.prediction_file import row_ids, text_ids
from headswap.study.statistics.compare_answers import add_answers, rows_of_runs, split_arguments, with_reference
from headswap.study.statistics.score_table import ScoreTable
from study_fixture import synthetic_study, write_unique


@pytest.fixture
def rows(tmp_path: Path) -> list[dict[str, str]]:
    """The rows of tmp_path/test.jsonl with their ids."""
    write_unique(tmp_path / "test.jsonl", 60, seed=2)
    rows = [json.loads(line) for line in (tmp_path / "test.jsonl").read_text(encoding="utf-8").splitlines()]
    ids = row_ids("test", text_ids([row["text"] for row in rows]))
    return [row | {"row": id} for row, id in zip(rows, ids, strict=True)]


def compared(tmp_path: Path, capsys: pytest.CaptureFixture[str], *more: str) -> dict:
    assert run(["compare", *more, "--test", str(tmp_path / "test.jsonl"), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_systems_are_compared_with_the_reference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rows: list[dict[str, str]]
) -> None:
    for name, num_wrong in (("small", 20), ("large", 5), ("old", 22)):
        write_csv(tmp_path / f"{name}.csv", answers_of(rows, num_wrong=num_wrong))
    files = [f"{name}={tmp_path / f'{name}.csv'}" for name in ("small", "large", "old")]
    found = compared(tmp_path, capsys, *files, "--reference", "old")
    assert [(row["arm"], row["other"], row["over"], row["verdict"]) for row in found["comparisons"]] == [
        ("small", "old", "texts", "none"), ("large", "old", "texts", "better"),
    ]  # fmt: skip
    assert found["headline"][1].startswith("Exploratory: large (one answer per text) is 28.3 points (")
    assert "labels" not in found["headline"][1]
    assert found["seeds"] == []


@pytest.mark.usefixtures("no_figures")
def test_the_report_of_systems_without_budgets_names_no_number_of_labels(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    rows: list[dict[str, str]],
) -> None:
    monkeypatch.chdir(tmp_path)
    texts = [{"row": place, "text": row["text"], "prediction": "pos"} for place, row in enumerate(rows, start=1)]
    write_csv(tmp_path / "a.csv", texts)
    write_csv(tmp_path / "b.csv", answers_of(rows, num_wrong=9))
    files = [f"{name}={tmp_path / f'{name}.csv'}" for name in "ab"]
    assert run(["compare", *files, "--test", str(tmp_path / "test.jsonl"), "--out", str(tmp_path / "out")]) == 0
    assert "arm\tscore\na\t0.500 (texts only: 0.3" in capsys.readouterr().out
    for kind in ("html", "md"):
        text = (tmp_path / "out" / f"report.{kind}").read_text(encoding="utf-8")
        assert not re.search(r"\b0 labels", text)
        assert "headswap compare a=a.csv b=b.csv --test test.jsonl" in text


def test_seeds_and_budgets_of_answers_are_paired(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rows: list[dict[str, str]]
) -> None:
    for name, num_wrong in (("one", 10), ("two", 25)):
        answers = [
            answer
            for budget in (50, 100)
            for seed in (1, 2, 3, 4)
            for answer in answers_of(rows, num_wrong=num_wrong + seed, budget=budget, seed=seed)
        ]
        write_csv(tmp_path / f"{name}.csv", answers)
    files = [f"{name}={tmp_path / f'{name}.csv'}" for name in ("one", "two")]
    found = compared(tmp_path, capsys, *files)
    cells = [(row["labels"], row["count"], row["over"]) for row in found["comparisons"]]
    assert cells == [(50, 4, "seeds and texts"), (100, 4, "seeds and texts")]
    assert found["comparisons"][0]["mean"] == pytest.approx(-15 / 60)


def test_answers_are_compared_with_runs_at_each_of_their_budgets(tmp_path: Path) -> None:
    study = synthetic_study({("scratch", labels): [0.7, 0.71, 0.72] for labels in (100, 400)})
    ids = rows_of_runs(study).ids
    truth = [{"row": id, "label": "neg" if place % 2 == 0 else "pos"} for place, id in enumerate(ids)]
    file = write_csv(tmp_path / "llm.csv", answers_of(truth, num_wrong=100))
    found = ScoreTable(add_answers(study, {"llm": str(file)}, rows_of_runs(study))).comparisons()
    assert [(row.arm, row.other, row.labels, row.count, row.verdict) for row in found] == [
        ("llm", "scratch", 100, 3, "better"), ("llm", "scratch", 400, 3, "better"),
    ]  # fmt: skip


def test_a_label_that_only_other_systems_know_is_declared_by_its_scores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rows: list[dict[str, str]]
) -> None:
    write_csv(tmp_path / "plain.csv", answers_of(rows, num_wrong=9))
    unsure = {"score:neg": 0, "score:pos": 0, "score:unsure": 1}
    write_csv(tmp_path / "three.csv", [{"row": row["row"], "prediction": "unsure", **unsure} for row in rows])
    files = [f"{name}={tmp_path / f'{name}.csv'}" for name in ("plain", "three")]
    assert compared(tmp_path, capsys, *files)["labels"] == ["neg", "pos", "unsure"]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ([], "Only answers are compared, so the test set is needed. Pass --test FILE."),
        (["--test", "test.jsonl", "--reference", "c"], "reference is 'c', which is not an arm. "),
    ],
)
def test_wrong_use_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, rows: list[dict[str, str]],
    more: list[str], sentence: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    for name in "ab":
        write_csv(Path(f"{name}.csv"), [{"row": row["row"], "prediction": OTHER[row["label"]]} for row in rows])
    assert run(["compare", "a=a.csv", "b=b.csv", *more]) == 2
    assert sentence in capsys.readouterr().err


def test_a_folder_whose_name_has_an_equals_sign_is_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "lr=0.1"
    folder.mkdir()
    assert split_arguments([str(folder), "llm=x.csv"]) == ([folder], {"llm": "x.csv"})


def test_a_comparison_states_that_its_runs_were_scored_before_it() -> None:
    cells = {("tfidf", 100): [0.7, 0.71, 0.69], ("new", 100): [0.8, 0.81, 0.79], ("old", 100): [0.75, 0.76, 0.74]}
    (note,) = with_reference(synthetic_study(cells), None).prepared["notes"]
    assert note.endswith("The tests of new count as planned only if it was named before that.")
    assert "notes" not in with_reference(synthetic_study(cells), "old").prepared, "all its tests are exploratory"
    del cells["tfidf", 100]
    assert "notes" not in with_reference(synthetic_study(cells), None).prepared, "nothing counts as planned"
