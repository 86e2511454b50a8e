"""Trackers: an error before training if they cannot start, a warning if they fail later, and never another result."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import headswap as hs
from headswap.core.errors import MissingExtraError, SettingError
from headswap.training import tracker as module
from headswap.training.mlflow_tracker import parameters_of
from headswap.training.tracker import Tracker, final_values, numbers_of
from tiny import PRETRAIN

pytestmark = pytest.mark.usefixtures("one_thread")
SHORT: dict[str, Any] = {**PRETRAIN, "max_steps": 4, "logging_steps": 1}


class Recorded(Tracker):
    """Keeps what it gets; fails at a step."""

    needs = ()
    extra = "none"
    fails_at: int | None = None
    seen: list[Any]

    def start(self, lines: Sequence[Mapping[str, Any]]) -> None:
        type(self).seen = [("start", len(lines))]

    def write(self, step: int, values: Mapping[str, float]) -> None:
        if step == self.fails_at:
            raise OSError("no space left")
        self.seen.append((step, dict(values)))

    def close(self, *, is_finished: bool) -> None:
        self.seen.append(("close", is_finished))


class Failing(Recorded):
    """Fails at step 2."""

    fails_at = 2


class Loaded(dict[str, type[Tracker]]):
    """A registry of the classes above."""

    def load(self, name: str) -> type[Tracker]:
        return self[name]


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TRACKERS", Loaded(recorded=Recorded, failing=Failing))


def without_times(run: hs.Run) -> list[dict[str, Any]]:
    return [{key: value for key, value in line.items() if key != "seconds"} for line in run.metrics()]


@pytest.mark.parametrize("name", ["tensorboard", "mlflow"])
def test_a_missing_package_is_an_error_with_the_command_before_anything_is_written(
    name: str, tiny_runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=rf"--report-to {name} needs .*pip install 'headswap\[{name}\]'"):
        hs.pretrain(tiny_runs / "corpus.txt", out=tmp_path / "run", report_to=name, **SHORT)
    assert not (tmp_path / "run").exists()


def test_an_unknown_tracker_is_an_error(tiny_runs: Path, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"'wandb' is not known\. Give tensorboard or mlflow"):
        hs.pretrain(tiny_runs / "corpus.txt", out=tmp_path / "run", report_to=("wandb",), **SHORT)


@pytest.mark.usefixtures("registered")
def test_a_tracker_gets_every_line_and_changes_neither_results_nor_recipe(
    tiny_runs: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plain = hs.pretrain(tiny_runs / "corpus.txt", out=tmp_path / "plain", **SHORT)
    with caplog.at_level(logging.WARNING, "headswap"):
        names = ["recorded", "failing"]
        tracked = hs.pretrain(tiny_runs / "corpus.txt", out=tmp_path / "tracked", report_to=names, **SHORT)
    lines = [(line["step"], numbers_of(line)) for line in tracked.metrics()]
    assert Recorded.seen[:-2] == [("start", 0), *lines]
    assert Recorded.seen[-2] == (4, numbers_of(final_values(tracked.result)))
    assert Recorded.seen[-1] == ("close", True)
    assert [one for one in Failing.seen if one[0] in (2, 3, 4, "close")] == []
    assert caplog.text.count("--report-to failing failed (no space left). Training continues") == 1
    assert without_times(tracked) == without_times(plain)
    recipes = [(run.path / "recipe.toml").read_text() for run in (plain, tracked)]
    assert recipes[0] == recipes[1]


def test_only_finite_numbers_are_metrics() -> None:
    line = {
        "step": 3,
        "loss": 1.5,
        "tokens": 7,
        "sample": "text",
        "bad": float("nan"),
        "none": None,
        "f1/a:b": 1,
        "is": True,
    }
    assert numbers_of(line) == {"loss": 1.5, "tokens": 7.0, "f1_a_b": 1.0}


def test_parameters_have_names_of_files_and_no_folders() -> None:
    recipe = {"verb": "finetune", "data": {"train": "/home/me/secret/train.csv"}, "corpus": {"corpus": ["~/x/a.txt"]}}
    assert parameters_of(recipe) == {"verb": "finetune", "data.train": "train.csv", "corpus.corpus": "['a.txt']"}
