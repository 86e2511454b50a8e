"""Curves, calibration, disagreements and other results, computed from the runs of a study."""

import json
from pathlib import Path

from headswap.study.report.charts import make_charts
from headswap.study.statistics.analysis import analyse
from headswap.study.statistics.runs import read_study
from study_fixture import (
    NUM_TEST,
    synthetic_study,
)


def test_disagreements_are_the_texts_with_the_most_different_probabilities() -> None:
    cells = {("scratch", 400): [0.5], ("pretrained", 400): [1.0]}
    runs = synthetic_study(cells, texts=[f"text {number}" for number in range(NUM_TEST)])
    found = analyse(runs).disagreements
    assert len(found) == 10
    assert all(row.trust["pretrained"] > row.trust["scratch"] for row in found)
    assert found[0].text == f"text {found[0].row}"
    hidden = analyse(runs, with_texts=False)
    assert "text " not in json.dumps(hidden.as_json()["disagreements"])


def test_details_are_at_the_largest_budget_with_most_arms() -> None:
    cells = {
        ("tfidf", 100): [0.6], ("tfidf", 400): [0.7], ("tfidf", 1600): [0.8],
        ("scratch", 100): [0.5], ("scratch", 400): [0.5], ("pretrained", 100): [0.6], ("pretrained", 400): [0.9],
    }  # fmt: skip
    found = analyse(synthetic_study(cells))
    assert [(row.arm, row.labels) for row in found.details] == [
        ("tfidf", 400), ("scratch", 400), ("pretrained", 400),
    ]  # fmt: skip
    assert set(found.disagreements[0].trust) == {"tfidf", "scratch", "pretrained"}
    assert any(chart.title == "Calibration at 400 labels" for chart in make_charts(found))


def test_curves_start_at_epoch_zero(finished_study: Path) -> None:
    results = analyse(read_study(finished_study))
    curve = next(c for c in results.curves if c.labels == 220 and c.measure == "eval_accuracy")
    assert [epoch for epoch, _ in curve.seeds[1]] == [0, 1, 2]
    assert results.bases[0].curve[0].epoch == 0


def test_curves_are_of_the_metric_of_the_study() -> None:
    study = synthetic_study({("scratch", 400): [0.7, 0.7], ("box", 400): [0.8, 0.8]})
    for run in study.runs:
        part = "train" if run.arm == "scratch" else "eval"
        run.history[:] = [{"epoch": 0, f"{part}_accuracy": 0.5, f"{part}_macro_f1": 0.4, "eval_loss": 0.7}]
    study.metric = "macro_f1"
    assert {curve.measure for curve in analyse(study).curves} == {"train_macro_f1", "eval_macro_f1", "eval_loss"}
    for run in study.runs:  # of an earlier version, which did not log it
        run.history[:] = [{"epoch": 0, "eval_accuracy": 0.5}]
    assert {curve.measure for curve in analyse(study).curves} == {"eval_accuracy"}
