"""The report in a browser: no console messages, charts with data, tooltips, no network requests."""

import os
import shutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from headswap.study.report.write import write_report
from headswap.study.statistics.runs import read_study

pytestmark = pytest.mark.slow
HOW = "needs Chromium: apt-get install chromium, or set HEADSWAP_CHROMIUM to a Chromium or Chrome"
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def chromium() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome")
    return os.environ.get("HEADSWAP_CHROMIUM") or next(filter(None, map(shutil.which, names)), None)


@pytest.fixture(scope="module")
def page(finished_study: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """An open report, with the console messages and requests of the browser."""
    playwright = import_module("playwright.sync_api")  # part of the extra dev
    program = chromium()
    if program is None:
        pytest.skip(HOW)
    out = tmp_path_factory.mktemp("page")
    write_report(read_study(finished_study), out)
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=FLAGS)
        opened = browser.new_page(viewport={"width": 1100, "height": 900})
        opened.messages, opened.requests = [], []
        opened.on("console", lambda message: opened.messages.append(message.text))
        opened.on("pageerror", lambda problem: opened.messages.append(str(problem)))
        opened.on("request", lambda request: opened.requests.append(request.url))
        opened.goto((out / "report.html").as_uri())
        yield opened
        browser.close()


def test_there_are_no_console_messages_and_no_network_requests(page: Any) -> None:
    assert page.messages == []
    assert [url for url in page.requests if not url.startswith(("file:", "data:"))] == []
    assert len([url for url in page.requests if url.startswith("file:")]) == 1


def test_charts_have_their_data(page: Any) -> None:
    assert page.locator("svg.chart").count() >= 6
    assert page.locator("#chart-efficiency .point").count() == 4 * 2
    assert page.locator("#chart-efficiency path.whisker").count() == 3 * 2, "the majority class has no interval"
    for chart in page.locator("svg.chart").all():
        box = chart.bounding_box()
        assert box["width"] > 250
        assert box["height"] > 150
        assert chart.locator("text.axis").count() == 2, "axis titles"
        assert "NaN" not in chart.inner_html()


def test_a_point_has_a_tooltip_that_stays_on_the_page(page: Any) -> None:
    tip = page.locator("#tip")
    assert not tip.is_visible()
    for number in (0, 7):
        page.locator("#chart-efficiency .point").nth(number).hover()
        assert tip.is_visible()
        box = tip.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 1100
    assert "pretrained, 220 labels: 0." in tip.inner_text()
    page.mouse.move(2, 2)
    assert not tip.is_visible()


def test_points_can_be_focused_with_the_keyboard(page: Any) -> None:
    page.locator("#chart-gain .point").first.focus()
    assert "pretrained - scratch, 40 labels" in page.locator("#tip").inner_text()
    page.locator("#chart-gain .point").first.evaluate("point => point.blur()")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_contrasts_with_its_background(page: Any, scheme: str) -> None:
    page.emulate_media(color_scheme=scheme)
    read = "name => getComputedStyle(document.body)[name].match(/\\d+/g).slice(0, 3).map(Number)"
    text, ground = page.evaluate(read, "color"), page.evaluate(read, "backgroundColor")
    assert (sum(ground) > sum(text)) is (scheme == "light")
    assert abs(sum(text) - sum(ground)) > 450


@pytest.mark.parametrize("width", [360, 768, 1400])
def test_the_page_does_not_scroll_sideways(page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.set_viewport_size({"width": 1100, "height": 900})


def test_the_printed_page_is_light(page: Any) -> None:
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.emulate_media(media="screen", color_scheme="light")
