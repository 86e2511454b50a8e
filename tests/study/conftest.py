"""Studies that several test files share."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from study_fixture import done_here, sections_of, write_data


@pytest.fixture(scope="session")
def finished_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished study: four arms, two budgets, three seeds."""
    folder = tmp_path_factory.mktemp("study")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADSWAP_CACHE", str(folder / "cache"))
        done_here(folder / "out", write_data(folder / "files"))
    torch.set_num_threads(threads)
    assert os.listdir(folder / "out" / "runs")
    return folder / "out"


@pytest.fixture
def study_copy(finished_study: Path, tmp_path: Path) -> Path:
    """A copy of the finished study that a test may change."""
    shutil.copytree(finished_study, tmp_path / "copy")
    return tmp_path / "copy"


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports without figure files, which take seconds to draw."""
    monkeypatch.setattr("headswap.study.report.write.draw_figures", lambda *_, **__: [])


@pytest.fixture
def given(tmp_path: Path) -> dict[str, Any]:
    """The sections of a study that takes a second."""
    return sections_of(tmp_path, arms=("majority",), budgets=("40",), seeds=1)


@pytest.fixture
def out(tmp_path: Path, given: dict[str, Any]) -> Path:
    """The folder of a finished study of `given`."""
    done_here(tmp_path / "out", given)
    (tmp_path / "out" / "report.md").write_text("the report of the old study")
    return tmp_path / "out"
