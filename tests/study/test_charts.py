"""Charts as data: colours and markers."""

from pathlib import Path

from headswap.study.analysis import analyse
from headswap.study.chart_files import COLOURS
from headswap.study.chart_svg import legend
from headswap.study.charts import NUM_COLOURS, make_charts
from headswap.study.runs import read_study
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
