"""Charts as data: colours and markers."""

from dataclasses import replace
from pathlib import Path

import pytest

from headswap.study.report.chart_files import COLOURS
from headswap.study.report.chart_svg import legend
from headswap.study.report.charts import METRIC_NAMES, NUM_COLOURS, make_charts, summary_charts
from headswap.study.statistics.analysis import analyse
from headswap.study.statistics.results import EPOCH_SCORES
from headswap.study.statistics.runs import read_study
from study_fixture import (
    synthetic_study,
)


def test_twelve_arms_have_different_colours() -> None:
    arms = ["majority", "tfidf", "scratch", "pretrained", *(f"arm {number}" for number in range(8))]
    chart = make_charts(analyse(synthetic_study({(arm, 400): [0.7, 0.71, 0.69] for arm in arms})))[0]
    assert len({series.colour for series in chart.series}) == len(arms) == NUM_COLOURS == len(COLOURS)
    looks = {key.replace(f"c{series.colour}", "") for series, (_, key) in zip(chart.series, legend(chart), strict=True)}
    assert len(looks) == 5, "one per marker"


def test_every_chart_has_axis_titles(finished_study: Path) -> None:
    charts = make_charts(analyse(read_study(finished_study)))
    assert {"efficiency", "gain", "calibration", "pretraining-loss", "epochs-220-accuracy"} <= {c.id for c in charts}
    assert all(chart.x_title and chart.y_title and chart.title for chart in charts)


def test_training_and_validation_curves_of_one_budget_are_two_charts() -> None:
    """Scratch holds nothing out where other arms do, so it has only training scores."""
    study = synthetic_study({("scratch", 400): [0.7, 0.7], ("box", 400): [0.8, 0.8]})
    for run in study.runs:
        if run.arm == "scratch":
            run.history[:] = [{"epoch": 0, "train_accuracy": 0.5}, {"epoch": 1, "train_accuracy": 1.0}]
    titles = {chart.id: chart.y_title for chart in make_charts(analyse(study))}
    assert titles["epochs-400-accuracy"] == "validation accuracy"
    assert titles["epochs-400-accuracy-training"] == "training accuracy"


@pytest.mark.parametrize("metric", EPOCH_SCORES)
def test_the_summary_has_the_epochs_of_the_metric_at_the_largest_budget(metric: str) -> None:
    study = synthetic_study({("scratch", labels): [0.7, 0.7] for labels in (100, 400)})
    for run in study.runs:
        run.history[:] = [{"epoch": 0, f"eval_{metric}": 0.5, "eval_loss": 0.7}, {"epoch": 1, f"eval_{metric}": 0.6}]
    results = replace(analyse(study), metric=metric)
    charts = [chart.id for chart in summary_charts(make_charts(results), metric)]
    assert charts == ["efficiency", f"epochs-400-{METRIC_NAMES[metric].split()[0]}"]


def test_the_summary_has_the_epochs_of_accuracy_if_no_run_logged_the_metric() -> None:
    study = synthetic_study({("scratch", 400): [0.7, 0.7]}, metric="macro_f1")
    assert [chart.id for chart in summary_charts(make_charts(analyse(study)), "macro_f1")] == [
        "efficiency", "epochs-400-accuracy",
    ]  # fmt: skip


@pytest.mark.parametrize(("unit", "counted"), [("sentence", "labelled sentences"), ("pair", "labelled pairs")])
def test_the_axis_of_labels_names_what_a_budget_counts(unit: str, counted: str) -> None:
    cells = {(arm, labels): [0.7, 0.7] for arm in ("scratch", "box") for labels in (100, 400)}
    for chart in make_charts(analyse(synthetic_study(cells, unit=unit)))[:2]:
        assert chart.x_title == f"{counted} (log scale)"
    assert make_charts(analyse(synthetic_study(cells)))[0].x_title == "labels (log scale)"
    charts = make_charts(analyse(synthetic_study(cells, unit=unit)))
    assert charts[0].title == f"Test accuracy by number of {counted}"
    assert any(chart.title.startswith(f"400 {counted}: validation") for chart in charts)
    assert f", 100 {counted}: 0.700" in charts[0].series[0].points[0].tip
