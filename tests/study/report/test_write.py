"""The report: complete, self-contained, computed from the run folders, without texts on request."""

import csv
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from headswap.cli.study_display import print_results
from headswap.core.files import write_json
from headswap.finetuning.answer_predictions import AnswerPredictions
from headswap.finetuning.label_set_predictions import LabelSetPredictions
from headswap.finetuning.prediction_file import AnyPredictions, Predictions, ValuePredictions, text_ids
from headswap.finetuning.tag_predictions import TagPredictions
from headswap.study.report.charts import METRIC_NAMES, make_charts
from headswap.study.report.write import write_report
from headswap.study.statistics.results import StudyResults
from headswap.study.statistics.runs import read_study
from headswap.study.statistics.significance import crossed_mean
from headswap.study.statistics.unit_scores import bounds_of, unit_scores
from study_fixture import (
    NUM_TEST,
    synthetic_study,
)

FILES = ("report.html", "report.md", "results.csv", "results.json")
pytestmark = pytest.mark.usefixtures("no_figures")


def test_the_page_is_self_contained(study_copy: Path) -> None:
    write_report(read_study(study_copy), study_copy)
    page = (study_copy / "report.html").read_text(encoding="utf-8")
    assert len(page.encode()) < 2_000_000
    assert not re.findall(r"https?://|//cdn|@import|url\(|<link[^>]+stylesheet|<script[^>]+src", page)
    assert page.count('<svg class="chart"') >= 6
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_the_scores_of_the_tables_are_those_of_the_runs(study_copy: Path) -> None:
    results = write_report(read_study(study_copy), study_copy).results
    rows = list(csv.DictReader((study_copy / "results.csv").open(encoding="utf-8")))
    assert len(rows) == 4 * 2 * 3
    for row in rows:
        name = f"{row['arm']}-{row['labels']}-seed{row['seed']}-"
        (folder,) = [path for path in (study_copy / "runs").iterdir() if path.name.startswith(name)]
        assert float(row["accuracy"]) == pytest.approx(float(Predictions.load(folder).is_right.mean()), abs=1e-6)
        result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
        if "test" in result:
            assert float(row["accuracy"]) == pytest.approx(result["test"]["accuracy"], abs=1e-6)
    assert results.num_test == 60


def test_a_report_is_reproduced_byte_for_byte(study_copy: Path) -> None:
    write_report(read_study(study_copy), study_copy)
    before = {name: (study_copy / name).read_bytes() for name in FILES}
    for name in FILES:
        (study_copy / name).unlink()
    write_report(read_study(study_copy), study_copy)
    assert {name: (study_copy / name).read_bytes() for name in FILES} == before


def test_numbers_are_not_read_from_an_old_report(study_copy: Path) -> None:
    first = write_report(read_study(study_copy), study_copy).results
    folder = next(path for path in (study_copy / "runs").iterdir() if path.name.startswith("scratch-40-seed1-"))
    kept = Predictions.load(folder)
    certain = np.eye(2)[kept.targets]
    Predictions(certain, kept.targets, kept.labels, kept.text_ids).save(folder)
    write_json(study_copy / "results.json", {"nonsense": True})
    second = write_report(read_study(study_copy), study_copy).results
    assert value(second, "scratch", 40, 1) == 1.0 != value(first, "scratch", 40, 1)


def value(results: StudyResults, arm: str, labels: int, seed: int) -> float:
    return next(c.values[seed] for c in results.cells if (c.arm, c.labels) == (arm, labels))


def test_a_missing_run_is_named_and_the_rest_is_reported(study_copy: Path) -> None:
    folder = next(path for path in (study_copy / "runs").iterdir() if path.name.startswith("pretrained-220-seed2-"))
    shutil.rmtree(folder)
    results = write_report(read_study(study_copy), study_copy).as_json()
    assert results["missing"] == [{"arm": "pretrained", "budget": "220", "labels": 220, "seed": 2}]
    page = (study_copy / "report.html").read_text(encoding="utf-8")
    assert "1 planned run is missing (logs/ has the messages of failed jobs); headswap study, called again, " in page
    assert "pretrained 220 seed 2" in page


def test_texts_are_left_out_on_request(study_copy: Path) -> None:
    write_report(read_study(study_copy), study_copy, with_texts=True)
    rows = [json.loads(line) for line in (study_copy / "data" / "test.jsonl").read_text(encoding="utf-8").splitlines()]
    shown = (study_copy / "report.html").read_text(encoding="utf-8")
    assert any(row["text"] in shown for row in rows)
    write_report(read_study(study_copy), study_copy, with_texts=False)
    for name in FILES:
        content = (study_copy / name).read_text(encoding="utf-8")
        assert not any(row["text"] in content for row in rows), name
        assert "mark 1" not in content, "nor texts of train"


def test_texts_are_escaped_in_the_page(study_copy: Path) -> None:
    runs = read_study(study_copy)
    assert runs.texts is not None
    runs.texts = ["<script>alert(1)</script>" for _ in runs.texts]
    write_report(runs, study_copy)
    page = (study_copy / "report.html").read_text(encoding="utf-8")
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_the_shared_base_and_the_overlap_are_reported(study_copy: Path) -> None:
    results = write_report(read_study(study_copy), study_copy).as_json()
    assert results["num_bases"] == 1
    assert "leave out the variation between pre-training runs" in results["caveats"][0]
    assert {(row["from"], row["to"]) for row in results["overlap"]} >= {("train", "test"), ("corpus", "test")}


def test_different_objectives_are_reported_as_not_comparable(study_copy: Path) -> None:
    sentence = "Losses and perplexities of different objectives are not comparable"
    runs = read_study(study_copy)
    write_report(runs, study_copy)
    assert sentence not in (study_copy / "report.html").read_text(encoding="utf-8")
    base = next(iter(runs.bases["pretrained"]))
    runs.bases["masked"] = [
        replace(base, name="other", folder=study_copy, result=base.result | {"objective": "masked"})
    ]
    write_report(runs, study_copy)
    assert sentence in (study_copy / "report.html").read_text(encoding="utf-8")


def test_a_strange_name_of_an_arm_is_text_in_every_file(study_copy: Path) -> None:
    name = '=a|b, <b>"c" {{ d }} $_$\ne'
    runs = read_study(study_copy)
    runs.runs = [replace(run, arm=name if run.arm == "pretrained" else run.arm) for run in runs.runs]
    runs.arms = [name if arm == "pretrained" else arm for arm in runs.arms]
    runs.bases[name] = runs.bases.pop("pretrained")
    write_report(runs, study_copy)
    with (study_copy / "results.csv").open(encoding="utf-8", newline="") as file:
        assert sum(row["arm"] == f"'{name}" for row in csv.DictReader(file)) == 6, "a text, not a formula"
    page, text = ((study_copy / file).read_text(encoding="utf-8") for file in ("report.html", "report.md"))
    assert "<b>" not in page
    assert '<td class="arm">=a|b, &lt;b&gt;' in page
    assert "<b>" not in text
    results = json.loads((study_copy / "results.json").read_text(encoding="utf-8"))
    assert name in results["arms"], "JSON is exact"
    num_compared = sum(row["arm"] == name for row in results["comparisons"])
    assert num_compared >= 2
    rows = [line for line in text.splitlines() if line.startswith(r'| =a\|b, &lt;b&gt;"c" {{ d }} $_$ e')]
    assert [line.replace(r"\|", "").count("|") for line in rows] == [4] + [8] * num_compared + [11] * 2, (
        "the table, its differences, and the confidence at two budgets"
    )


def test_a_figure_that_cannot_be_drawn_costs_no_number(study_copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no font")

    for name in FILES:
        (study_copy / name).unlink(missing_ok=True)
    monkeypatch.setattr("headswap.study.report.write.draw_figures", broken)
    with pytest.raises(RuntimeError, match="no font"):
        write_report(read_study(study_copy), study_copy)
    assert all((study_copy / name).stat().st_size for name in FILES)


def test_label_worths_of_many_arms_are_a_table(tmp_path: Path) -> None:
    cells = {
        ("scratch", 100): [0.60, 0.61, 0.59], ("scratch", 400): [0.70, 0.71, 0.69],
        **{(arm, 100): [0.701, 0.709, 0.69] for arm in ("pretrained", "lora", "frozen")},
        **{(arm, 400): [0.90, 0.91, 0.89] for arm in ("pretrained", "lora", "frozen")},
    }  # fmt: skip
    runs = synthetic_study(cells, texts=[f"text {number}" for number in range(NUM_TEST)])
    write_report(runs, tmp_path)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "- Pre-training at 100 labels: the label worth is 4" in text
    assert "at 400 labels: the label worth" not in text, "no larger budget was tried, so nothing follows"
    assert "The arm 'lora' at" not in text
    (line,) = [line for line in text.splitlines() if line.startswith("| lora, in labels of scratch | 4 (")]
    assert "; pays off above 0.2 s per label) | over 1" in line
    assert '<table id="worth">' in (tmp_path / "report.html").read_text(encoding="utf-8")
    without = synthetic_study({cell: values for cell, values in cells.items() if cell[0] != "pretrained"} | {
        ("gradual", labels): cells["lora", labels] for labels in (100, 400)
    }, texts=runs.texts)  # fmt: skip
    write_report(replace(without, arms=["scratch", "pretrained", "lora", "frozen", "gradual"]), tmp_path)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "## Label worth" in text
    assert "| frozen, in labels of scratch | 4 (" in text
    few = synthetic_study({cell: values for cell, values in cells.items() if cell[0] != "frozen"}, texts=runs.texts)
    write_report(few, tmp_path)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "- The arm 'lora' at 100 labels: the label worth is 4" in text
    assert "| label worth |" not in text


def predictions_of(kind: str, quality: float, seed: int) -> AnyPredictions:
    """Predictions for 200 test examples, of which about the share `quality` is right."""
    truth, stream = np.random.default_rng(0), np.random.default_rng([seed, round(quality * 100)])
    ids = text_ids([f"example {number}" for number in range(200)])
    is_right = stream.random(200) < quality
    if kind == "values":
        values = truth.normal(size=200)
        return ValuePredictions(values + np.where(is_right, 0.1, 1.0) * stream.normal(size=200), values, ids)
    if kind == "label sets":
        targets = truth.random((200, 3)) < 0.4
        return LabelSetPredictions(targets ^ (stream.random((200, 3)) > quality), targets, ("a", "b", "c"), ids)
    if kind == "tags":
        targets = np.tile(np.array([0, 1, 2], dtype=np.int32), 200)
        predicted = np.where(np.repeat(is_right, 3), targets, 0).astype(np.int32)
        return TagPredictions(predicted, targets, np.full(200, 3), ("O", "B-place", "I-place"), ids)
    f1, offsets = np.where(is_right, 1.0, 0.5), np.zeros(200, dtype=np.int32)
    contexts = text_ids([f"context {number // 4}" for number in range(200)])
    return AnswerPredictions(offsets, offsets, f1, np.floor(f1), np.ones(200, bool), ids, ids, contexts)


@pytest.mark.parametrize(
    ("kind", "task", "metric"),
    [
        ("values", "regress", "r2"), ("values", "regress", "pearson"), ("label sets", "multilabel", "micro_f1"),
        ("label sets", "multilabel", "macro_f1"), ("tags", "tag", "f1"), ("answers", "span", "exact_match"),
    ],
)  # fmt: skip
def test_table_chart_sentence_and_files_have_the_same_interval(
    tmp_path: Path, kind: str, task: str, metric: str
) -> None:
    cells = {("scratch", 100): [0.55] * 3, ("scratch", 400): [0.7] * 3, ("pretrained", 100): [0.75] * 3}
    study = synthetic_study(cells | {("pretrained", 400): [0.76] * 3}, metric=metric, task=task)
    study.runs = [
        replace(run, predictions=predictions_of(kind, cells.get((run.arm, run.labels), [0.76])[0], run.seed))
        for run in study.runs
    ]
    report = write_report(study, tmp_path)
    kept = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    text, page = ((tmp_path / name).read_text(encoding="utf-8") for name in ("report.md", "report.html"))
    only = f"They are estimates without a test; the verdicts of this report are about {METRIC_NAMES[metric]} only."
    assert only in text
    assert only in page
    groups = np.arange(200) // 4 if kind == "answers" else None
    charts = {chart.id: chart for chart in make_charts(report.results)}
    points = {series.name: series.points for series in charts["efficiency"].series}
    for cell in kept["cells"]:
        runs = study.by_seed(cell["arm"], cell["labels"]).values()
        values = np.stack([unit_scores(run.predictions, metric, groups=groups) for run in runs])
        expected = crossed_mean(values, least_error=0.0 if kind == "values" else 1 / 200).interval()
        low, high = max(expected.low, bounds_of(metric)[0]), min(expected.high, bounds_of(metric)[1])
        assert (cell["low"], cell["high"]) == pytest.approx((low, high))
        assert f"{cell['mean']:.3f} ({low:.3f} to {high:.3f})" in text
        assert f"{cell['mean']:.3f}<small>{low:.3f} to {high:.3f}" in page
        (point,) = [point for point in points[cell["arm"]] if point.x == cell["labels"]]
        assert (point.low, point.high) == (cell["low"], cell["high"])
    for row in kept["comparisons"]:
        span = f"{row['low'] * 100:+.1f} to {row['high'] * 100:+.1f}"
        assert f"| {row['mean'] * 100:+.1f} | {span} |" in text
        assert f"<td>{span}</td>" in page
        (point,) = [point for point in charts["gain"].series[0].points if point.x == row["labels"]]
        assert (point.low, point.high) == pytest.approx((row["low"] * 100, row["high"] * 100))
        shown = span.replace("+", "") if row["verdict"] == "better" else span
        assert shown in " ".join(kept["headline"])


def test_the_error_rate_of_planned_tests_and_of_the_whole_report_are_stated(tmp_path: Path) -> None:
    arms = {"tfidf": 0.6, "scratch": 0.6, "pretrained": 0.7, "lora": 0.65}
    cells = {(arm, labels): [level, level + 0.01, level - 0.01] for arm, level in arms.items() for labels in (100, 400)}
    write_report(synthetic_study(cells), tmp_path)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "false positive among the planned tests is at most 0.15" in text
    assert (
        "one family of 6. With them, the probability of at least one false positive in the whole report is at" in text
    )
    assert "at most 0.20. Confirm an exploratory result" in text


def test_without_a_planned_test_all_comparisons_are_exploratory(tmp_path: Path) -> None:
    cells = {("box:a", 100): [0.6, 0.61, 0.59], ("box:b", 100): [0.7, 0.71, 0.69]}
    write_report(synthetic_study(cells), tmp_path)
    for name in ("report.md", "report.html"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert (
            "All comparisons are exploratory; they are Holm-corrected as one family of 1. The probability of at least "
            "one false positive in the whole report is at most 0.05. Confirm an exploratory result with new seeds"
        ) in text
        assert "Planned tests" not in text
        assert "All other comparisons" not in text


def test_a_report_of_pairs_counts_pairs_and_its_tables_of_results_keep_their_columns(tmp_path: Path) -> None:
    cells = {(arm, labels): [0.6, 0.61, 0.59] for arm in ("tfidf", "scratch") for labels in (100, 400)}
    cells |= {("pretrained", labels): [level, level + 0.01, level - 0.01] for labels, level in ((100, 0.7), (400, 0.8))}
    write_report(synthetic_study(cells, unit="pair"), tmp_path)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert "<th>arm</th><th>100 pairs</th><th>400 pairs</th>" in page
    assert "| arm | 100 pairs | 400 pairs |" in text
    assert "100 and 400 labelled pairs; 3 seeds; 1,000 test pairs" in text
    assert page.count("<th>labelled pairs</th>") + page.count('<th rowspan="2">labelled pairs</th>') == 3
    for shown in (page, text):
        assert not re.findall(r"[\d>] labels\b|[|>] ?labels ?[|<]|n labels", shown)
    assert next(csv.reader((tmp_path / "results.csv").open(encoding="utf-8")))[:2] == ["arm", "labels"]
    assert json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["cells"][0]["labels"] == 100


def test_a_share_that_is_not_zero_is_not_shown_as_zero(tmp_path: Path) -> None:
    study = synthetic_study({("tfidf", 100): [0.6, 0.61, 0.59]})
    for run in study.runs:
        run.classes.probabilities[:, 0], run.classes.probabilities[:, 1] = 0.8, 0.2
        run.classes.probabilities[0] = 0.97, 0.03
    write_report(study, tmp_path)
    assert "<small>&lt;1 %</small>" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "(<1 %)" in (tmp_path / "report.md").read_text(encoding="utf-8")


def test_a_score_that_rounds_to_zero_has_no_sign(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = synthetic_study({("mean", 100): [0.0] * 3, ("tfidf", 100): [0.1] * 3}, metric="r2", task="regress")
    study.runs = [replace(run, predictions=predictions_of("values", 0.5, run.seed)) for run in study.runs]
    for run in study.runs:
        if run.arm == "mean":
            run.predictions.values[:] = run.predictions.targets.mean() + 1e-3
    report = write_report(study, tmp_path)
    assert -1e-4 < report.results.cells[0].mean < 0
    print_results(report.as_json(), out=None)
    shown = [(tmp_path / name).read_text(encoding="utf-8") for name in ("report.md", "report.html")]
    for text in (*shown, capsys.readouterr().out):
        assert "0.000" in text
        assert "-0.000" not in text
