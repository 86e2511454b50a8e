"""One finished study of the small grammar for all tests that only read it."""

import os
from pathlib import Path

import pytest
import torch

from study_fixture import done_here, write_data


@pytest.fixture(scope="session")
def finished_study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four arms, two budgets, three seeds."""
    folder = tmp_path_factory.mktemp("study")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HEADSWAP_CACHE", str(folder / "cache"))
        done_here(folder / "out", write_data(folder / "files"))
    torch.set_num_threads(threads)
    assert os.listdir(folder / "out" / "runs")
    return folder / "out"
