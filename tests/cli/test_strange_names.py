"""Names of files, folders, labels and arms that contain markup of rich, matplotlib, str.format or %."""

import io
import json
import re
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headswap.cli.display import start_messages
from headswap.cli.exit_codes import run
from headswap.cli.main import main
from headswap.cli.study_display import JobDisplay
from headswap.core.document_text import markdown
from headswap.core.ownership import TEMPORARY
from headswap.study.report.chart_files import draw_figures
from headswap.study.report.charts import Chart, Point, Series
from study_fixture import SHAPE, write_unique

NAMES = (
    "$x$", "$_$", "$", r"\frac{", "[x]", "[bold]", "[/bold]", "\\", "%s %d", "{} {0}", ":smile:", "_a", "a|b", "<b>&",
)  # fmt: skip
STRANGE = "$_$ $ [bold] [/] \\ %s {} :smile:"  # as a path: a folder with a file or folder in it
FLAGS = [f"--{name.replace('_', '-')}={value}" for name, value in SHAPE.items()]
FLAGS += ["--max-length=24", "--vocab-size=300", "--device=cpu", "--threads=1"]
FIRST, SECOND = "$_$ [/] \\ %s", "[bold] {} :smile: é▁"


class Terminal(io.StringIO):
    """A stream of a terminal."""

    def isatty(self) -> bool:
        return True

    def shown(self) -> str:
        """What was written, without colours and cursor movements."""
        return re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", self.getvalue())


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    monkeypatch.setenv("TERM", "xterm")


@contextmanager
def terminals() -> Iterator[tuple[Terminal, Terminal]]:
    """Standard output and standard error of a terminal."""
    with redirect_stdout(Terminal()) as out, redirect_stderr(Terminal()) as err:
        yield out, err


def write_strange(file: Path, count: int, *, seed: int) -> Path:
    """The sentences of the small grammar under labels with strange names."""
    file.parent.mkdir(parents=True, exist_ok=True)
    write_unique(file, count, seed=seed)
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    named = [row | {"label": FIRST if row["label"] == "pos" else SECOND} for row in rows]
    file.write_text("".join(f"{json.dumps(row)}\n" for row in named), encoding="utf-8")
    return file


def command(*parts: object) -> int:
    return run([str(part) for part in parts])


def test_a_finetuning_and_a_prediction_on_a_terminal(tmp_path: Path) -> None:
    folder = tmp_path / STRANGE
    train, test = (write_strange(folder / f"{STRANGE}-{seed}.jsonl", 40, seed=seed) for seed in (1, 2))
    place = folder / "run [/b] x"
    line = ["finetune", "--base=scratch", "--train", train, "--test", test, "--out", place, "--num-train-epochs=1"]
    with terminals() as (out, err):
        code = command(*line, *FLAGS)
    assert code == 0, err.shown()
    assert f"The classifier is in {place}. Next: headswap predict '{place}' 'your text'" in err.shown()
    confusion = out.shown().partition("Confusion")[2]
    assert confusion.count(FIRST) == 2
    assert confusion.count(SECOND) == 2
    with terminals() as (out, err):
        code = command("predict", place, "a fine film")
    assert code == 0, err.shown()
    assert out.shown().startswith((FIRST, SECOND))


def test_a_study_with_its_report_on_a_terminal(tmp_path: Path) -> None:
    folder = tmp_path / STRANGE
    train, test = (write_strange(folder / f"{STRANGE}-{seed}.jsonl", 60, seed=seed) for seed in (1, 2))
    arm = folder / "$_$ [bold] {} %s.toml"
    arm.write_text('verb = "finetune"\n[model]\nbase = "scratch"\n', encoding="utf-8")
    place = folder / "study [/b] x"
    line = ["study", "--train", train, "--test", test, "--arms", "majority", "--arms", arm, "--out", place]
    with terminals() as (out, err):
        code = command(*line, "--budgets=40", "--seeds=1", "--finetune.num-train-epochs=1", *FLAGS)
    assert code == 0, err.shown()
    assert f"[2/2] {arm.stem}-40-seed1" in err.shown()
    assert f"{arm.stem} " in out.shown()
    assert f"Report: {place}/report.html" in out.shown()
    assert arm.stem in drawn_in(place / "figures" / "efficiency.svg")
    title = f"What does pre-training gain? {train.parent.name}/{train.name.partition('.')[0]}"
    assert title in drawn_in(place / "figures" / "summary.svg")
    assert f"| {markdown(arm.stem)} |" in (place / "report.md").read_text(encoding="utf-8")


def test_running_job_is_shown_by_its_name(tmp_path: Path) -> None:
    job: Any = SimpleNamespace(name="a[/]b [bold] :smile:", kind="finetune", folder=str(tmp_path))
    with terminals() as (_, err):
        display = JobDisplay(start_messages(quiet=False), quiet=False)
        display.on_start(job)
        display.on_wait([job])
        display.close()
    assert job.name in err.shown()


def drawn_in(file: Path) -> str:
    """The texts of an SVG file, as they are drawn, on one line."""
    return " ".join("".join(ET.parse(file).getroot().itertext()).split())


def chart_of(names: tuple[str, ...]) -> Chart:
    points = [Point(0, 320.0), Point(1, 90.0)]
    series = [Series(name, points, number) for number, name in enumerate(names)]
    return Chart("efficiency", "Test accuracy", "epoch", "perplexity", series, is_log_y=True)


def test_names_are_drawn_as_they_are(tmp_path: Path) -> None:
    draw_figures([chart_of(NAMES)], tmp_path, title=" ".join(NAMES))
    legend, summary = drawn_in(tmp_path / "efficiency.svg"), drawn_in(tmp_path / "summary.svg")
    assert all(name in legend for name in NAMES)
    assert " ".join(NAMES) in summary


def test_ticks_of_a_logarithmic_axis_are_plain_numbers(tmp_path: Path) -> None:
    draw_figures([chart_of(("one",))], tmp_path, title="title")
    drawn = drawn_in(tmp_path / "efficiency.svg")
    assert "100" in drawn
    assert "$" not in drawn


def test_a_figure_whose_writing_is_interrupted_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw_figures([chart_of(("one",))], tmp_path, title="title")
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    def half(_: object, file: Any, **__: object) -> None:
        Path(file).write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr("matplotlib.figure.Figure.savefig", half)
    with pytest.raises(KeyboardInterrupt):
        draw_figures([chart_of(("two",))], tmp_path, title="title")
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before
    assert not any(name.startswith(TEMPORARY) for name in before)


@pytest.mark.parametrize("more", [[], ["--json"]])
def test_a_label_that_standard_output_cannot_encode_is_escaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    train = write_strange(tmp_path / "train.jsonl", 40, seed=1)
    assert command("finetune", "--base=scratch", "--train", train, "--out", tmp_path / "run", *FLAGS, "--quiet",
                   "--num-train-epochs=1") == 0  # fmt: skip
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    monkeypatch.setattr(sys, "argv", ["headswap", "predict", str(tmp_path / "run"), "a fine film", *more])
    with pytest.raises(SystemExit) as leaving:
        main()
    assert leaving.value.code == 0
    said = written.getvalue().decode("ascii")
    assert set(json.loads(said)["scores"]) == {FIRST, SECOND} if more else r"\u2581" in said


@pytest.mark.parametrize("flag", ["--train", "--out"])
def test_a_name_that_is_not_utf_8_is_refused_before_anything_is_trained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], flag: str
) -> None:
    given = {"--train": write_strange(tmp_path / "train.jsonl", 40, seed=1), "--out": tmp_path / "run"}
    given[flag] = tmp_path / "bad\udcff" / given[flag].name
    line = [f"{name}={value}" for name, value in given.items()]
    assert command("finetune", "--base=scratch", *line, *FLAGS, "--num-train-epochs=1") == 2
    said = capsys.readouterr().err
    assert r"bad\udcff" in said
    assert "rename a file or folder whose name is not UTF-8" in said
    assert not (tmp_path / "run").exists()
