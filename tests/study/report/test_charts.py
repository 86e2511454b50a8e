"""Charts as data: colours and markers."""

from pathlib import Path

from headswap.study.report.chart_files import COLOURS
from headswap.study.report.chart_svg import legend
from headswap.study.report.charts import NUM_COLOURS, make_charts
from headswap.study.statistics.analysis import analyse
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
