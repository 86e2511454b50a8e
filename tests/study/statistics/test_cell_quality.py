"""Collapsed runs and their median, constant baselines, abstention, and the metric of a study."""

import json
from pathlib import Path

import pytest

from headswap.cli.study_display import _cell
from headswap.study.jobs.planned_jobs import Plan
from headswap.study.report.caveats import caveats
from headswap.study.report.write import write_report
from headswap.study.statistics.analysis import analyse
from headswap.study.statistics.cell_quality import count_collapsed
from study_fixture import planned, sections_of, synthetic_study

COLLAPSED = {("majority", 400): [0.5, 0.5, 0.5], ("scratch", 400): [0.9, 0.5, 0.88]}


def test_collapsed_runs_are_those_at_the_majority_while_the_best_is_clearly_above() -> None:
    assert count_collapsed([0.5, 0.48, 0.9], majority=0.5, num_test=1000) == 2
    assert count_collapsed([0.51, 0.7, 0.9], majority=0.5, num_test=1000) == 0
    # Two standard errors of .5 on 1,000 texts are .032: here all seeds fail, so the mean describes them.
    assert count_collapsed([0.5, 0.49, 0.53], majority=0.5, num_test=1000) == 0
    assert count_collapsed([0.5, 0.49, 0.54], majority=0.5, num_test=1000) == 2


def test_the_median_is_shown_beside_the_mean_of_collapsed_runs(tmp_path: Path) -> None:
    results = analyse(synthetic_study(COLLAPSED))
    cell = next(cell for cell in results.cells if cell.arm == "scratch")
    assert (cell.num_collapsed, cell.median) == (1, 0.88)
    assert cell.mean == pytest.approx(0.76)
    assert _cell(cell.as_json()).endswith(", median 0.880")
    assert any("1 of 3 runs of scratch at 400 labels is at or below the majority" in one for one in caveats(results))
    write_report(synthetic_study(COLLAPSED), tmp_path)
    for name in ("report.md", "report.html"):
        assert "median 0.880" in (tmp_path / name).read_text()


def test_without_the_arm_majority_the_largest_class_of_test_is_used() -> None:
    results = analyse(synthetic_study({("scratch", 400): [0.9, 0.5, 0.88]}))
    assert results.cells[0].num_collapsed == 1
    plain = analyse(synthetic_study({("scratch", 400): [0.9, 0.8, 0.88]})).cells[0]
    assert (plain.num_collapsed, plain.median) == (0, None)


def test_a_constant_baseline_has_no_interval(tmp_path: Path) -> None:
    study = synthetic_study(COLLAPSED | {("tfidf", 400): [0.7, 0.72, 0.74]})
    for run in study.runs:  # the same prediction for every text
        if run.arm == "majority":
            run.predictions.probabilities[:] = [0.6, 0.4]
    cells = {cell.arm: cell for cell in analyse(study).cells}
    assert (cells["majority"].low, cells["majority"].high) == (None, None)
    assert cells["tfidf"].low is not None
    assert _cell(cells["majority"].as_json()) == "0.500"
    write_report(study, tmp_path)
    assert "| majority | 0.500 |" in (tmp_path / "report.md").read_text()


def test_every_cell_has_coverage_and_accuracy_by_limit(tmp_path: Path) -> None:
    study = synthetic_study({("scratch", 400): [0.9, 0.8, 0.88]})
    (cell,) = analyse(study).as_json()["cells"]
    assert [point["below"] for point in cell["abstention"]] == [0.5, 0.6, 0.7, 0.8, 0.9, 0.95]
    assert cell["abstention"][0] == {
        "below": 0.5, "coverage": 1.0, "accuracy": pytest.approx(0.86), "num_abstained": 0,
    }  # fmt: skip
    assert cell["abstention"][-1]["accuracy"] is None, "no confidence is above .9"
    write_report(study, tmp_path)
    assert "## Confidence" in (tmp_path / "report.md").read_text()
    assert 'id="confidence"' in (tmp_path / "report.html").read_text()


def test_the_metric_of_a_study_chooses_epochs_and_the_strength_of_tfidf(tmp_path: Path) -> None:
    def plan_of(**study: str) -> Plan:
        return planned(tmp_path / "out", sections_of(tmp_path, seeds=1, budgets=("40",), **study))[2]

    plain, accuracy, macro = plan_of(), plan_of(metric="accuracy"), plan_of(metric="macro-f1")
    assert plain.jobs.keys() == accuracy.jobs.keys(), "the default makes the same jobs"
    assert (plain.as_json()["metric"], macro.as_json()["metric"]) == ("accuracy", "macro_f1")
    by_arm = {job.arm: job for job in macro.jobs.values()}
    for arm in ("tfidf", "scratch", "pretrained"):
        assert by_arm[arm].sections["training"]["metric"] == "macro_f1"
        assert by_arm[arm].id not in plain.jobs
    assert by_arm[None].id in plain.jobs, "the base does not depend on the metric"
    assert json.loads(json.dumps(plain.as_json()))["metric"] == "accuracy"


def test_a_rounded_mean_of_the_majority_hides_no_collapsed_run() -> None:
    assert sum([0.7, 0.7, 0.7]) / 3 < 0.7
    assert count_collapsed([0.95, 0.7, 0.7], majority=sum([0.7, 0.7, 0.7]) / 3, num_test=1000) == 2
