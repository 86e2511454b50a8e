"""Another system as an arm: its answers become runs of the study, in tables, tests and the report."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from answers import answers_of, asked, write_csv
from headswap.core.errors import InputError
from headswap.study.report.write import make_report, write_report
from headswap.study.run import run_study
from headswap.study.statistics.runs import read_study
from headswap.study.statistics.score_table import ScoreTable
from study_fixture import sections_of


@pytest.fixture
def sections(tmp_path: Path) -> dict[str, Any]:
    return sections_of(tmp_path, arms=("llm=llm.csv",), budgets=("40", "220"), seeds=3)


@pytest.fixture
def with_answers(tmp_path: Path, sections: dict[str, Any]) -> dict[str, Any]:
    """A study of two other systems: one answer per text without scores, and runs per budget and seed with scores."""
    rows = asked(tmp_path / "out", sections)
    write_csv(tmp_path / "llm.csv", answers_of(rows, num_wrong=6))
    tool = [
        answer | {"score:neg": 0.8 if answer["prediction"] == "neg" else 0.2,
                  "score:pos": 0.8 if answer["prediction"] == "pos" else 0.2}
        for budget in (40, 220) for seed in (1, 2, 3)
        for answer in answers_of(rows, num_wrong=24 - budget // 20 + seed, budget=budget, seed=seed)
    ]  # fmt: skip
    write_csv(tmp_path / "tool.csv", tool)
    sections["study"]["arms"] = (f"tool={tmp_path / 'tool.csv'}", f"llm={tmp_path / 'llm.csv'}")
    return sections


def test_answers_are_scored_beside_each_other(tmp_path: Path, with_answers: dict[str, Any]) -> None:
    study = run_study(out=tmp_path / "out", sections=with_answers)
    assert (study.outcome.done, study.preflight.num_done) == ([], 7)  # copied, not run
    results = make_report(read_study(tmp_path / "out")).as_json()
    means = {(cell["arm"], cell["labels"]): (cell["mean"], cell["count"], cell["over"]) for cell in results["cells"]}
    assert means["llm", 40] == means["llm", 220] == (pytest.approx(54 / 60), 1, "texts")
    assert means["tool", 40] == (pytest.approx(1 - 24 / 60), 3, "seeds and texts")
    assert results["seeds"] == [1, 2, 3]
    assert results["external"]["llm"]["has_one_answer"]
    assert results["external"]["tool"] == results["external"]["tool"] | {
        "file": "tool.csv", "has_scores": True, "has_one_answer": False,
    }  # fmt: skip


def test_an_arm_without_scores_has_no_log_loss_and_says_why(tmp_path: Path, with_answers: dict[str, Any]) -> None:
    run_study(out=tmp_path / "out", sections=with_answers)
    report = make_report(read_study(tmp_path / "out"))
    cells = {cell.arm: cell for cell in report.results.cells}
    assert (cells["llm"].mean_loss, cells["llm"].mean_ece, cells["llm"].abstention) == (None, None, [])
    assert cells["llm"].without_scores == "the answers have no scores"
    assert cells["tool"].mean_loss is not None
    assert cells["tool"].without_scores is None
    details = {row.arm: row for row in report.results.details}
    assert (details["llm"].ece, list(details["llm"].bins)) == (None, [])


@pytest.mark.usefixtures("no_figures")
def test_the_report_is_computed_from_the_folder_alone_and_marks_one_answer_per_text(
    tmp_path: Path, with_answers: dict[str, Any]
) -> None:
    run_study(out=tmp_path / "out", sections=with_answers)
    for name in ("llm.csv", "tool.csv"):
        (tmp_path / name).unlink()
    write_report(read_study(tmp_path / "out"), tmp_path / "out")
    page, text = ((tmp_path / "out" / f"report.{kind}").read_text(encoding="utf-8") for kind in ("html", "md"))
    assert "0.900 (texts only: 0.8" in text
    assert "answers of another system (llm.csv), one per text" in page
    assert "No values for llm: the answers have no scores." in text
    assert "The arm 'llm' has one answer per text." in text
    assert "one answer per text: llm" in page
    assert "llm,40,,0.900000" in (tmp_path / "out" / "results.csv").read_text(encoding="utf-8")


def test_the_same_answers_are_the_same_runs_and_changed_ones_are_others(
    tmp_path: Path, with_answers: dict[str, Any]
) -> None:
    first = run_study(out=tmp_path / "out", sections=with_answers).plan
    again = run_study(out=tmp_path / "out", sections=with_answers).plan
    assert again.jobs.keys() == first.jobs.keys()
    rows = asked(tmp_path / "out", with_answers)
    write_csv(tmp_path / "llm.csv", answers_of(rows, num_wrong=7))
    changed = run_study(out=tmp_path / "out", sections=with_answers).plan
    assert len(changed.jobs.keys() - first.jobs.keys()) == 1
    cell = make_report(read_study(tmp_path / "out")).results.cells[-1]
    assert (cell.arm, cell.mean) == ("llm", pytest.approx(53 / 60))


def test_a_damaged_copy_is_written_again(tmp_path: Path, with_answers: dict[str, Any]) -> None:
    plan = run_study(out=tmp_path / "out", sections=with_answers).plan
    folder = next(Path(job.folder) for job in plan.jobs.values() if job.name == "llm")
    (folder / "predictions.npz").write_bytes(b"")
    assert "llm" in " ".join(make_report(read_study(tmp_path / "out")).caveats)
    run_study(out=tmp_path / "out", sections=with_answers)
    report = make_report(read_study(tmp_path / "out"))
    assert not report.results.missing
    assert any("The job llm was found damaged" in sentence for sentence in report.caveats)


def test_the_problems_of_all_files_are_one_error_and_change_nothing(
    tmp_path: Path, with_answers: dict[str, Any]
) -> None:
    before = sorted(path.name for path in (tmp_path / "out").iterdir())
    (tmp_path / "llm.csv").write_text("row,prediction\ntest-1-00000000,pos\n", encoding="utf-8")
    (tmp_path / "tool.csv").write_text("row,answer\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        run_study(out=tmp_path / "out", sections=with_answers)
    assert "tool.csv has no column 'prediction'" in str(caught.value)
    assert "the row 'test-1-00000000' is not a row of this test set" in str(caught.value)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == before


def test_answers_to_another_test_set_are_refused(tmp_path: Path, with_answers: dict[str, Any]) -> None:
    file = Path(with_answers["data"]["test"])
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    rows[4]["text"] += " indeed"
    file.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    with pytest.raises(InputError, match=r"the row 'test-5-[0-9a-f]{8}' is not a row of this test set"):
        run_study(out=tmp_path / "out", sections=with_answers)


def test_another_system_may_be_the_primary_arm_and_may_lack_a_budget(
    tmp_path: Path, with_answers: dict[str, Any]
) -> None:
    rows = asked(tmp_path / "out", with_answers)
    write_csv(tmp_path / "few.csv", answers_of(rows, num_wrong=3, budget=220))
    few = f"few={tmp_path / 'few.csv'}"
    with_answers["study"] |= {"arms": (*with_answers["study"]["arms"], few), "primary_arm": "few"}
    run_study(out=tmp_path / "out", sections=with_answers)
    report = make_report(read_study(tmp_path / "out"))
    assert report.results.primary == "few"
    assert [cell.labels for cell in report.results.cells if cell.arm == "few"] == [220]
    assert any("The arm 'few' has no answers at 40 labels." in sentence for sentence in report.caveats)


def test_one_answer_per_text_is_paired_with_every_seed_of_the_other_arm(
    tmp_path: Path, with_answers: dict[str, Any]
) -> None:
    run_study(out=tmp_path / "out", sections=with_answers)
    (row, _) = ScoreTable(read_study(tmp_path / "out")).comparisons()
    assert (row.arm, row.other, row.count, list(row.one_answer)) == ("llm", "tool", 3, ["llm"])
    assert (row.over, row.mean) == ("seeds and texts", pytest.approx((24 - 6) / 60))


def test_two_systems_with_one_answer_per_text_are_tested_over_texts(
    tmp_path: Path, with_answers: dict[str, Any]
) -> None:
    rows = asked(tmp_path / "out", with_answers)
    write_csv(tmp_path / "other.csv", answers_of(rows, num_wrong=20))
    with_answers["study"]["arms"] = (f"llm={tmp_path / 'llm.csv'}", f"other={tmp_path / 'other.csv'}")
    run_study(out=tmp_path / "out", sections=with_answers)
    row = ScoreTable(read_study(tmp_path / "out")).comparisons()[0]
    difference = np.zeros(60)
    difference[6:20] = -1.0
    error = difference.std(ddof=1) / np.sqrt(60)
    assert (row.over, row.verdict, row.mean) == ("texts", "worse", pytest.approx(-14 / 60))
    assert row.high == pytest.approx(-14 / 60 + 2.0010 * error, abs=1e-4)  # t with 59 degrees of freedom
