"""The report: whole, self-contained, computed anew from the run folders; and free of texts on request."""

import csv
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headswap.core.errors import InputError
from headswap.core.files import write_json
from headswap.finetuning.prediction_file import Predictions
from headswap.study.chart_files import spark_line
from headswap.study.chart_svg import svg, tick_names, ticks
from headswap.study.charts import Chart, Point, Series
from headswap.study.report import tell, write_report
from headswap.study.runs import read_study

FILES = ("report.html", "report.md", "results.csv", "results.json")


@pytest.fixture(autouse=True)
def _no_figures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """They take seconds; the one test that is about them draws them."""
    if "figure" not in request.node.name:
        monkeypatch.setattr("headswap.study.report.draw_figures", lambda *_, **__: [])


@pytest.fixture
def copy(finished_study: Path, tmp_path: Path) -> Path:
    """A study that a test may change."""
    shutil.copytree(finished_study, tmp_path / "copy")
    return tmp_path / "copy"


def test_the_page_is_one_file_that_asks_the_network_for_nothing(copy: Path) -> None:
    write_report(read_study(copy), copy)
    page = (copy / "report.html").read_text(encoding="utf-8")
    assert len(page.encode()) < 2_000_000
    assert not re.findall(r"https?://|//cdn|@import|url\(|<link[^>]+stylesheet|<script[^>]+src", page)
    assert page.count('<svg class="chart"') >= 6
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_every_figure_is_there_as_svg_and_png(copy: Path) -> None:
    write_report(read_study(copy), copy)
    names = {file.stem for file in (copy / "figures").glob("*.svg")}
    assert names == {file.stem for file in (copy / "figures").glob("*.png")}
    assert {"summary", "efficiency", "gain", "calibration", "pretraining-loss", "epochs-220-accuracy"} <= names
    assert all(file.stat().st_size > 3_000 for file in (copy / "figures").glob("*.png"))


def test_epoch_zero_is_in_the_curves(copy: Path) -> None:
    results = write_report(read_study(copy), copy)
    curve = next(c for c in results["curves"] if c["labels"] == 220 and c["measure"] == "eval_accuracy")
    assert [epoch for epoch, _ in curve["seeds"][1]] == [0, 1, 2]
    assert results["bases"][0]["curve"][0]["epoch"] == 0


def test_tables_say_what_the_runs_say(copy: Path) -> None:
    results = write_report(read_study(copy), copy)
    rows = list(csv.DictReader((copy / "results.csv").open(encoding="utf-8")))
    assert len(rows) == 4 * 2 * 3
    for row in rows:
        name = f"{row['arm']}-{row['labels']}-seed{row['seed']}-"
        (folder,) = [path for path in (copy / "runs").iterdir() if path.name.startswith(name)]
        assert float(row["accuracy"]) == pytest.approx(float(Predictions.load(folder).is_right.mean()), abs=1e-6)
        told = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        if "test" in told:
            assert float(row["accuracy"]) == pytest.approx(told["test"]["accuracy"], abs=1e-6)
    assert results["num_test"] == 60


def test_a_report_is_made_again_from_the_run_folders_byte_for_byte(copy: Path) -> None:
    write_report(read_study(copy), copy)
    before = {name: (copy / name).read_bytes() for name in FILES}
    for name in FILES:
        (copy / name).unlink()
    write_report(read_study(copy), copy)
    assert {name: (copy / name).read_bytes() for name in FILES} == before


def test_numbers_are_computed_and_never_taken_from_an_old_report(copy: Path) -> None:
    first = write_report(read_study(copy), copy)
    folder = next(path for path in (copy / "runs").iterdir() if path.name.startswith("scratch-220-seed1-"))
    kept = Predictions.load(folder)
    certain = np.eye(2)[kept.targets]
    Predictions(certain, kept.targets, kept.labels, kept.text_ids).save(folder)
    write_json(copy / "results.json", {"nonsense": True})
    second = write_report(read_study(copy), copy)
    assert value(second, "scratch", 220, 1) == 1.0 != value(first, "scratch", 220, 1)


def value(results: dict, arm: str, labels: int, seed: int) -> float:
    return next(c["values"][seed] for c in results["cells"] if (c["arm"], c["labels"]) == (arm, labels))


def test_the_learning_rate_of_every_arm_is_told(copy: Path) -> None:
    write_report(read_study(copy), copy)
    text = (copy / "report.md").read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if "Learning rates, which fit the start" in line)
    assert "scratch 0.00085; pretrained 0.0017, each layer 0.8 of the one above it, the head 10 times." in line, line


def test_intervals_of_shares_end_at_0_and_1(copy: Path) -> None:
    material = read_study(copy)
    for number, run in enumerate(run for run in material.runs if run.arm == "scratch"):
        run.predictions.probabilities[:] = np.eye(2)[
            run.predictions.targets if number % 3 else 1 - run.predictions.targets
        ]
    cells = [cell for cell in tell(material)["cells"] if cell["arm"] == "scratch"]
    assert all((cell["low"], cell["high"]) == (0.0, 1.0) for cell in cells), cells


def test_a_run_that_is_missing_is_named_and_the_rest_is_reported(copy: Path) -> None:
    folder = next(path for path in (copy / "runs").iterdir() if path.name.startswith("pretrained-220-seed2-"))
    shutil.rmtree(folder)
    results = write_report(read_study(copy), copy)
    assert results["missing"] == [{"arm": "pretrained", "budget": "220", "labels": 220, "seed": 2}]
    page = (copy / "report.html").read_text(encoding="utf-8")
    assert "1 planned run is missing" in page
    assert "pretrained 220 seed 2" in page


def test_texts_are_left_out_on_request(copy: Path) -> None:
    write_report(read_study(copy), copy, with_texts=True)
    rows = [json.loads(line) for line in (copy / "data" / "test.jsonl").read_text(encoding="utf-8").splitlines()]
    shown = (copy / "report.html").read_text(encoding="utf-8")
    assert any(row["text"] in shown for row in rows)
    write_report(read_study(copy), copy, with_texts=False)
    for name in FILES:
        content = (copy / name).read_text(encoding="utf-8")
        assert not any(row["text"] in content for row in rows), name
        assert "mark 1" not in content, "nor texts of train"


def test_what_a_text_or_label_holds_cannot_become_part_of_the_page(copy: Path) -> None:
    material = read_study(copy)
    assert material.texts is not None
    material.texts = ["<script>alert(1)</script>" for _ in material.texts]
    write_report(material, copy)
    page = (copy / "report.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_a_folder_without_a_study_is_told_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no study"):
        read_study(tmp_path)


def test_the_shared_base_is_said_and_leaks_are_counted(copy: Path) -> None:
    results = write_report(read_study(copy), copy)
    assert results["num_bases"] == 1
    assert "share one: their intervals are conditional on it" in results["caveats"][0]
    assert {(row["from"], row["to"]) for row in results["overlap"]} >= {("train", "test"), ("corpus", "test")}


def test_objectives_that_do_not_compare_are_said_so(copy: Path) -> None:
    said = "Losses and perplexities of different objectives do not compare"
    material = read_study(copy)
    write_report(material, copy)
    assert said not in (copy / "report.html").read_text(encoding="utf-8")
    base = next(iter(material.bases["pretrained"]))
    material.bases["masked"] = [replace(base, name="other", folder=copy, result=base.result | {"objective": "masked"})]
    write_report(material, copy)
    assert said in (copy / "report.html").read_text(encoding="utf-8")


def test_a_strange_name_of_an_arm_is_text_in_every_file(copy: Path) -> None:
    name = 'a|b, <b>"c" {{ d }} $_$\ne'
    material = read_study(copy)
    material.runs = [replace(run, arm=name if run.arm == "pretrained" else run.arm) for run in material.runs]
    material.arms = [name if arm == "pretrained" else arm for arm in material.arms]
    material.bases[name] = material.bases.pop("pretrained")
    write_report(material, copy)
    with (copy / "results.csv").open(encoding="utf-8", newline="") as file:
        assert sum(row["arm"] == name for row in csv.DictReader(file)) == 6
    page, text = ((copy / file).read_text(encoding="utf-8") for file in ("report.html", "report.md"))
    assert "<b>" not in page
    assert '<td class="arm">a|b, &lt;b&gt;' in page
    rows = [line for line in text.splitlines() if line.startswith(r'| a\|b, <b>"c" {{ d }} $_$ e')]
    assert [line.replace(r"\|", "").count("|") for line in rows] == [4] + [7] * (len(rows) - 1)
    assert len(rows) == 1 + 2 * 2, "the table, and two arms to compare with at two budgets"


def test_a_figure_that_cannot_be_drawn_costs_no_number(copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no font")

    for name in FILES:
        (copy / name).unlink(missing_ok=True)
    monkeypatch.setattr("headswap.study.report.draw_figures", broken)
    with pytest.raises(RuntimeError, match="no font"):
        write_report(read_study(copy), copy)
    assert all((copy / name).stat().st_size for name in FILES)


# Charts


def test_ticks_are_round_numbers_inside_the_range() -> None:
    assert ticks(0.0, 0.0) == [0.0], "curves of a single epoch"
    assert ticks(0.47, 0.66) == [0.5, 0.55, 0.6, 0.65]
    assert ticks(-5.3, 5.4) == [-4.0, -2.0, 0.0, 2.0, 4.0]
    assert tick_names([0.5, 0.55]) == ["0.50", "0.55"]
    assert tick_names([100, 1_600]) == ["100", "1,600"]


def test_a_chart_has_its_axis_titles_and_a_tip_for_every_point() -> None:
    points = [Point(100, 0.5, 0.4, 0.6, "first"), Point(400, 0.7, 0.6, 0.8, "second <b>")]
    drawn = svg(Chart("x", "Title", "labels", "accuracy", [Series("a", points, 1)], is_log_x=True))
    assert ">labels</text>" in drawn
    assert ">accuracy</text>" in drawn
    assert drawn.count('class="point c1"') == 2
    assert 'data-tip="second &lt;b&gt;"' in drawn
    assert drawn.count("whisker") == 2


def test_a_single_budget_is_drawn_too() -> None:
    chart = Chart("x", "T", "labels", "accuracy", [Series("a", [Point(100, 0.5)], 0)], is_log_x=True)
    assert "nan" not in svg(chart)


def test_values_become_small_bars() -> None:
    assert spark_line([0.0, 0.5, 1.0], 0.0, 1.0) == "▁▅█"
