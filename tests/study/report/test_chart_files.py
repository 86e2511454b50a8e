"""Charts as files, and bars of characters."""

from pathlib import Path

from headswap.study.report.chart_files import spark_line
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
