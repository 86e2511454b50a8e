"""The chart of a study that fits its task: what its primary arm predicts at the largest budget, as data.

A regression has its predicted against its true values. Labels, types of entities and answers have the F1 of parts of
the test set, next to the best baseline. All numbers are those of the error analysis (`errors` in `results.json`).
"""

from headswap.core.errors import counted
from headswap.study.report.charts import Chart, Point, Series, colour_of
from headswap.study.statistics.error_results import ErrorAnalysis, SliceScore, TestSlice
from headswap.study.statistics.part_scores import number_format
from headswap.study.statistics.results import StudyResults

PART_CHARTS = ("predicted-values", "parts")
MOST_PARTS = 30
MOST_BARS = 12
"""Labels or types of one chart, the most frequent ones."""
NAMED_PARTS = ("label", "type", "questions:")
LENGTH = "words"


def shown_parts(results: StudyResults) -> list[TestSlice]:
    """The parts of the table: at most `MOST_PARTS` labels or types, the most frequent ones; of classes all."""
    parts = list(results.errors.slices) if results.errors else []
    if results.details:
        return parts
    named = [part for part in parts if part.by in NAMED_PARTS]
    return [*named[:MOST_PARTS], *(part for part in parts if part.by not in NAMED_PARTS)]


def part_charts(results: StudyResults) -> list[Chart]:
    """The chart of the task; none for classes, which have a calibration and confusion matrices."""
    errors = results.errors
    if errors is None or results.details:
        return []
    if errors.predicted is not None:
        return [_values(results, errors)]
    parts = [part for part in errors.slices if part.by in NAMED_PARTS]
    parts = parts or [part for part in errors.slices if part.by == LENGTH]
    return [_bars(results, errors, parts)] if parts else []


def _values(results: StudyResults, errors: ErrorAnalysis) -> Chart:
    """Predicted against true values of one run."""
    found = errors.predicted
    assert found is not None
    shown_value = number_format([*found.targets, *found.values])
    points = [
        Point(target, value, tip=f"row {row + 1}: true {shown_value(target)}, predicted {shown_value(value)}")
        for row, target, value in zip(found.rows, found.targets, found.values, strict=True)
    ]
    shown = "" if len(points) == results.num_test else f", {len(points):,} of {results.num_test:,} test {results.unit}s"
    title = f"Predicted against true values{_at(errors, results)}: {errors.arm}, seed {found.seed} only{shown}"
    series = Series(errors.arm, points, colour_of(results.arms)[errors.arm])
    return Chart("predicted-values", title, "true value", "predicted value", [series], line="identity", form="points")


def _bars(results: StudyResults, errors: ErrorAnalysis, parts: list[TestSlice]) -> Chart:
    """F1 on parts of the test set, one bar per arm."""
    by, shown = parts[0].by, parts[:MOST_BARS] if parts[0].by != LENGTH else parts
    left_out = len(parts) - len(shown)
    which = f": the {len(shown)} most frequent, {left_out:,} left out" if left_out else ""
    what, x_title = {
        "label": ("label", "label"),
        "type": ("type of entity", "type of entity"),
        "questions:": ("kind of question", "test questions"),
        LENGTH: ("length of question and context", "words of question and context"),
    }[by]
    colours = colour_of(results.arms)
    series = []
    for number, score in enumerate(parts[0].scores):
        points = [
            Point(
                place, part.scores[number].mean, part.scores[number].low, part.scores[number].high, _tip(part, number)
            )
            for place, part in enumerate(shown)
        ]
        series.append(Series(score.arm, points, colours[score.arm]))
    names = tuple(part.name for part in shown)
    title = f"F1 per {what}{_at(errors, results)}{which}"
    return Chart("parts", title, x_title, "F1, mean over seeds", series, form="bars", names=names)


def _at(errors: ErrorAnalysis, results: StudyResults) -> str:
    return f" at {errors.labels:,} {results.words.many}" if errors.labels else ""


def _tip(part: TestSlice, number: int) -> str:
    score: SliceScore = part.scores[number]
    span = f" ({score.low:z.3f} to {score.high:z.3f})" if score.low is not None else ""
    return f"{score.arm}, {part.name} ({counted(part.num_texts, 'test example')}): {score.mean:z.3f}{span}"
