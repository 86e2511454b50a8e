"""`headswap compare`: the metric by which runs are compared. Runs of other tasks: tests/study/test_*_study.py."""

import json
from pathlib import Path

import pytest

from headswap.cli.exit_codes import run
from headswap.finetuning.prediction_file import load_predictions
from study_fixture import done_here, runs_of, sections_of


@pytest.fixture(scope="module")
def by_macro_f1(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two runs that were trained by macro-F1."""
    folder = tmp_path_factory.mktemp("runs")
    done_here(
        folder / "out", sections_of(folder, arms=("scratch",), metric="macro_f1", budgets=("40",), seeds=2, corpus=())
    )
    return [str(path) for path in runs_of(folder / "out", "scratch-40-seed1", "scratch-40-seed2")]


@pytest.mark.parametrize(
    ("flags", "metric"),
    [([], "macro_f1"), (["--metric", "accuracy"], "accuracy"), (["--metric", "macro-f1"], "macro_f1")],
)
def test_runs_and_baselines_are_compared_by_the_metric(
    by_macro_f1: list[str], capsys: pytest.CaptureFixture[str], flags: list[str], metric: str
) -> None:
    assert run(["compare", *by_macro_f1, *flags, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["metric"], found["arms"]) == (metric, ["majority", "tfidf", "scratch"])
    (cell,) = [cell for cell in found["cells"] if cell["arm"] == "scratch"]
    assert cell["values"]["2"] == pytest.approx(load_predictions(Path(by_macro_f1[1])).scores()[metric])
    (majority,) = [cell for cell in found["cells"] if cell["arm"] == "majority"]
    assert majority["mean"] == pytest.approx(0.5 if metric == "accuracy" else 1 / 3)


def test_an_unknown_metric_is_an_error_that_lists_the_allowed_ones(
    by_macro_f1: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compare", *by_macro_f1, "--metric", "pearson"]) == 2
    message = "metric is 'pearson', but runs of the task classify are compared by 'accuracy', 'macro_f1'."
    assert message in capsys.readouterr().err


def test_columns_without_a_test_set_are_refused(by_macro_f1: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", *by_macro_f1, "--text-pair-column", "second"]) == 2
    assert "--text-pair-column: columns are read from the test set. Pass --test FILE" in capsys.readouterr().err


def test_compare_needs_two_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["compare", "one"]) == 2
    assert "compare needs at least two run folders" in capsys.readouterr().err


def test_a_comparison_replaces_only_a_comparison(
    by_macro_f1: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "report.md").write_text("my own")
    assert run(["compare", *by_macro_f1, "--out", str(mine)]) == 2
    assert f"--out {mine} holds 'report.md', which no comparison wrote." in capsys.readouterr().err
    assert [path.name for path in mine.iterdir()] == ["report.md"]
    study = Path(by_macro_f1[0]).parents[1]
    for out, why in ((study, "holds a study"), (by_macro_f1[0], "is the input"), (mine / "report.md", "is a file")):
        assert run(["compare", *by_macro_f1, "--out", str(out)]) == 2
        assert why in capsys.readouterr().err
    for _ in range(2):  # an earlier comparison is replaced
        assert run(["compare", *by_macro_f1, "--out", str(tmp_path / "report"), "--quiet"]) == 0
    assert (tmp_path / "report" / "report.html").exists()
