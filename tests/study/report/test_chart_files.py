"""Charts as files, and bars of characters."""

import warnings
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import pytest

from headswap.study.report.chart_files import draw_figures, spark_line
from headswap.study.report.charts import Chart, Point, Series
from headswap.study.report.write import write_report
from headswap.study.statistics.runs import read_study


def test_values_become_bar_characters() -> None:
    assert spark_line([0.0, 0.5, 1.0], 0.0, 1.0) == "▁▅█"


def test_every_figure_is_written_as_svg_and_png(study_copy: Path) -> None:
    write_report(read_study(study_copy), study_copy)
    names = {file.stem for file in (study_copy / "figures").glob("*.svg")}
    assert names == {file.stem for file in (study_copy / "figures").glob("*.png")}
    assert {"summary", "efficiency", "gain", "calibration", "pretraining-loss", "epochs-220-accuracy"} <= names
    assert all(file.stat().st_size > 3_000 for file in (study_copy / "figures").glob("*.png"))


def test_bars_and_points_are_drawn_without_a_summary(tmp_path: Path) -> None:
    points = [Point(0, 0.5, 0.4, 0.6), Point(1, 0.75)]
    bars = Chart("parts", "F1", "label", "F1", [Series("a", points, 1)], form="bars", names=("one", "two"))
    values = Chart("values", "V", "true", "predicted", [Series("a", points, 1)], form="points", line="identity")
    written = draw_figures([bars, values], tmp_path, title="title")
    assert {file.stem for file in written} == {"parts", "values"}
    drawn = (tmp_path / "parts.svg").read_text(encoding="utf-8")
    assert "two" in drawn


def test_long_titles_and_names_are_wrapped_between_words_and_after_colons(tmp_path: Path) -> None:
    title = "Predicted against true values at 5,000 labelled pairs: pretrained, seed 1 only, 500 of 1,379 test pairs"
    name = "consistency:adapted:box:reviews-en-2"
    draw_figures(
        [Chart("one", title, "x", "y", [Series(name, [Point(1, 2)], 1)], form="bars", names=("a",))],
        tmp_path,
        title="t",
    )
    drawn = (tmp_path / "one.svg").read_text(encoding="utf-8")
    assert title not in drawn, "more than one line"
    assert "500 of 1,379 test pairs" in drawn
    assert ">consistency:adapted:box:<" in drawn
    assert ">reviews-en-2<" in drawn


def test_a_slow_place_of_a_legend_is_no_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """matplotlib warns after a second, which a busy machine needs for a few points."""
    clock = count(step=10)
    monkeypatch.setattr("matplotlib.legend.time", SimpleNamespace(perf_counter=lambda: next(clock)))
    points = [Point(x, x % 3) for x in range(9)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert draw_figures([Chart("one", "F1", "x", "y", [Series("a", points, 1)])], tmp_path, title="t")
