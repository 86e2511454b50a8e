"""Charts as inline SVG."""

from headswap.study.report.chart_svg import LONGEST_NAME, log_ticks, shortened, svg, tick_names, ticks
from headswap.study.report.charts import Chart, Point, Series


def test_ticks_are_round_numbers_inside_the_range() -> None:
    assert ticks(0.0, 0.0) == [0.0], "curves of a single epoch"
    assert ticks(0.47, 0.66) == [0.5, 0.55, 0.6, 0.65]
    assert ticks(-5.3, 5.4) == [-4.0, -2.0, 0.0, 2.0, 4.0]
    assert tick_names([0.5, 0.55]) == ["0.50", "0.55"]
    assert tick_names([100, 1_600]) == ["100", "1,600"]


def test_a_logarithmic_axis_has_at_least_two_ticks() -> None:
    assert log_ticks(90, 1_100) == [100, 200, 500, 1_000]
    assert log_ticks(226, 317) == [240, 260, 280, 300]


def test_a_chart_has_axis_titles_and_a_tooltip_per_point() -> None:
    points = [Point(100, 0.5, 0.4, 0.6, "first"), Point(400, 0.7, 0.6, 0.8, "second <b>")]
    drawn = svg(Chart("x", "Title", "labels", "accuracy", [Series("a", points, 1)], is_log_x=True))
    assert ">labels</text>" in drawn
    assert ">accuracy</text>" in drawn
    assert drawn.count('class="point c1"') == 2
    assert 'data-tip="second &lt;b&gt;"' in drawn
    assert drawn.count("whisker") == 2


def test_a_chart_of_one_budget_is_drawn() -> None:
    chart = Chart("x", "T", "labels", "accuracy", [Series("a", [Point(100, 0.5)], 0)], is_log_x=True)
    assert "nan" not in svg(chart)


def test_long_names_of_bars_are_cut_so_that_they_differ() -> None:
    assert shortened(["label", "fromloc.city_name"]) == ["label", "fromloc.city_n…"]
    names = ["depart_time.time", "depart_time.time_relative", "depart_time.period_of_day"]
    cut = shortened(names)
    assert cut == ["depar…time.time", "depar…_relative", "depart_time.pe…"]
    assert max(map(len, cut)) <= LONGEST_NAME
    names = ["label", *(f"the questions about the {which} item today" for which in ("first", "other"))]
    assert shortened(names) == ["label", "the questions…2", "the questions…3"]


def test_ticks_of_a_narrow_range_have_different_names() -> None:
    assert tick_names(ticks(1_000.05, 1_000.65)) == ["1,000.2", "1,000.4", "1,000.6"]
    assert tick_names(ticks(0.7e-5, 3.2e-5)) == ["0.000010", "0.000015", "0.000020", "0.000025", "0.000030"]
    assert tick_names(ticks(1e-12, 3e-12)) == ["1e-12", "1.5e-12", "2e-12", "2.5e-12", "3e-12"]
