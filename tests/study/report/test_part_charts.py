"""The chart of each task: predicted against true values, F1 per label or type, F1 of questions."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headswap.finetuning.answer_predictions import AnswerPredictions
from headswap.finetuning.label_set_predictions import LabelSetPredictions
from headswap.finetuning.prediction_file import AnyPredictions, ValuePredictions, text_ids
from headswap.finetuning.tag_predictions import TagPredictions
from headswap.study.report.chart_svg import svg
from headswap.study.report.charts import Chart
from headswap.study.report.part_charts import MOST_BARS, MOST_PARTS, part_charts
from headswap.study.report.write import write_report
from headswap.study.statistics.analysis import analyse
from headswap.study.statistics.runs import ScoredRun, StudyRuns
from study_fixture import synthetic_study

SIZE = 60
IDS = text_ids([str(number) for number in range(SIZE)])


def study_of(task: str, metric: str, made: dict[str, AnyPredictions], **more: Any) -> StudyRuns:
    """Two seeds of each arm, with the same predictions."""
    runs = [
        ScoredRun(arm, "50", 50, seed, Path(f"{arm}-{seed}"), one, {"seconds": 1.0, "cross_validation": 0.5}, [], "")
        for arm, one in made.items()
        for seed in (1, 2)
    ]
    return StudyRuns(None, runs, list(made), metric=metric, task=task, primary="scratch", **more)  # type: ignore[arg-type]


def label_sets(num_labels: int) -> LabelSetPredictions:
    """The first label is the most frequent one, and so on; every prediction is right but those of the first label."""
    targets = np.arange(SIZE)[:, None] % (np.arange(num_labels) + 1) == 0
    predicted = targets.copy()
    predicted[::2, 0] = False
    return LabelSetPredictions(predicted, targets, tuple(f"label {number}" for number in range(num_labels)), IDS)


def chart_of(study: StudyRuns) -> Chart:
    (chart,) = part_charts(analyse(study))
    return chart


def test_a_regression_has_its_predicted_against_its_true_values() -> None:
    targets = np.arange(SIZE, dtype=float)
    made = {
        "mean": ValuePredictions(np.full(SIZE, 30.0), targets, IDS),
        "scratch": ValuePredictions(targets + 1, targets, IDS),
    }
    chart = chart_of(study_of("regress", "r2", made))
    assert chart.title == "Predicted against true values at 50 labels: scratch, seed 1 only"
    assert (chart.line, chart.form) == ("identity", "points")
    (series,) = chart.series
    assert [(point.x, point.y) for point in series.points] == [(value, value + 1) for value in range(SIZE)]
    x0, x1, y0, y1 = chart.limits()
    assert (x0, x1) == (y0, y1)
    drawn = svg(chart)
    assert drawn.count('class="dot') == SIZE
    assert 'class="rule"' in drawn
    assert "thick" not in drawn, "points are not connected"


def test_labels_have_bars_for_the_primary_arm_and_the_best_baseline() -> None:
    one = label_sets(MOST_BARS + 3)
    chart = chart_of(study_of("multilabel", "micro_f1", {"tfidf": one, "scratch": one}))
    assert chart.title == f"F1 per label at 50 labelled texts: the {MOST_BARS} most frequent, 3 left out"
    assert [series.name for series in chart.series] == ["scratch", "tfidf"]
    assert chart.names == tuple(f"label {number}" for number in range(MOST_BARS))
    assert [point.y for point in chart.series[0].points[:2]] == pytest.approx([2 / 3, 1.0])
    assert chart.limits()[2] == 0.0, "bars start at 0"
    drawn = svg(chart)
    assert drawn.count("<rect") == 2 * MOST_BARS
    assert drawn.count("rotate(-35") == MOST_BARS
    assert "scratch, label 0 (60 test examples): 0.667" in drawn


def test_types_of_entities_have_bars() -> None:
    words = np.array([0, 1, 2] * SIZE)
    one = TagPredictions(words, words, np.full(SIZE, 3), ("B-LOC", "B-PER", "O"), IDS)
    chart = chart_of(study_of("tag", "f1", {"scratch": one}, unit="sentence"))
    assert (chart.names, chart.x_title) == (("LOC", "PER"), "type of entity")
    assert chart.title == "F1 per type of entity at 50 labelled sentences"


@pytest.mark.parametrize("metric", ["f1", "exact_match"])
def test_questions_have_the_f1_of_answerable_and_unanswerable_ones_or_of_lengths(metric: str) -> None:
    zeros, has_answer = np.zeros(SIZE, dtype=int), np.arange(SIZE) % 3 > 0
    f1 = np.where(has_answer, 0.5, 1.0)
    given = {"exact_match": np.zeros(SIZE), "answer_ids": IDS, "text_ids": IDS}
    texts = ["word " * (1 + number % 7) for number in range(SIZE)]

    def study(answerable: np.ndarray) -> StudyRuns:
        made = AnswerPredictions(zeros, zeros, f1, has_answer=answerable, **given)
        return study_of("span", metric, {"scratch": made}, texts=texts, unit="question")

    chart = chart_of(study(has_answer))
    assert chart.names == ("answerable", "unanswerable")
    assert [point.y for point in chart.series[0].points] == pytest.approx([0.5, 1.0])
    assert "rotate(-35" not in svg(chart)
    chart = chart_of(study(np.ones(SIZE, dtype=bool)))
    assert chart.x_title == "words of question and context"
    assert chart.names[0] == "1 to 2"
    assert chart.series[0].points[0].y > 0.4, "F1, whatever the metric of the study"


def test_classes_have_no_such_chart() -> None:
    assert part_charts(analyse(synthetic_study({("scratch", 100): [0.7, 0.7]}))) == []


@pytest.mark.usefixtures("no_figures")
def test_the_table_states_how_many_labels_are_left_out_and_the_results_have_all(tmp_path: Path) -> None:
    study = study_of("multilabel", "micro_f1", {"scratch": label_sets(MOST_PARTS + 4)})
    write_report(study, tmp_path)
    for name in ("report.md", "report.html"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert "4 less frequent labels left out; results.json has all." in text
        assert text.count("label label ") == MOST_PARTS
    results = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert len(results["errors"]["slices"]) == MOST_PARTS + 4
    assert "predicted" not in results["errors"]
    assert 'id="chart-parts"' in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert "](figures/parts.png)" in (tmp_path / "report.md").read_text(encoding="utf-8")
