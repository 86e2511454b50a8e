"""No process that headswap starts imports Python files of the current folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import headswap as hs
from headswap.core.current_folder import HOME
from headswap.study.run import conduct
from study_fixture import MACHINE, SHAPE, write_data
from tiny import write_labelled

INSTALLED = ("torch", "numpy", "pydantic", "tokenizers", "safetensors", "cyclopts", "rich", "sklearn", "headswap_base")


@pytest.fixture
def traps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a file per module of the standard library that writes its name to `mark` and raises."""
    folder = tmp_path / "traps"
    folder.mkdir()
    for name in (*sys.stdlib_module_names, *INSTALLED):
        set_trap(folder, name)
    monkeypatch.chdir(folder)
    return folder


def set_trap(folder: Path, name: str) -> None:
    lines = f"open({str(folder / 'mark')!r}, 'a').write({name!r} + ' ')\nraise ImportError('a file of the user ran')\n"
    (folder / f"{name}.py").write_text(lines, encoding="utf-8")


def caught(folder: Path) -> str:
    """The modules that were imported from the folder."""
    return (folder / "mark").read_text(encoding="utf-8") if (folder / "mark").exists() else ""


def test_without_protection_python_imports_from_the_current_folder(traps: Path) -> None:
    assert subprocess.run([sys.executable, "-c", "import json"], capture_output=True).returncode != 0
    assert caught(traps) == "json "


@pytest.mark.fresh_process
def test_the_fresh_process_of_a_finetuning_imports_nothing_from_the_current_folder(traps: Path) -> None:
    run = hs.finetune(
        "scratch", train=write_labelled(traps / "train.jsonl", 60), out=traps / "run", num_train_epochs=1,
        max_length=24, **SHAPE, **MACHINE,
    )  # fmt: skip
    assert run.result["reload_check"]["examples"] > 0
    assert caught(traps) == ""


def test_the_jobs_of_a_study_import_nothing_from_the_current_folder(traps: Path) -> None:
    sections = write_data(traps / "files")
    sections["study"] |= {"arms": ("majority", "scratch"), "budgets": ("40",), "seeds": 1}
    study = conduct(out=traps / "out", sections=sections)
    assert caught(traps) == ""
    assert study.outcome.failed == {}
    assert all(job.is_done for job in study.plan.jobs.values())


def imported_by_python_m(folder: Path) -> list[str]:
    """The modules that `python -m` imports before its module, with the current folder first on sys.path."""
    folder.mkdir()
    (folder / "first.py").write_text("import sys\nprint(*sys.modules)", encoding="utf-8")
    line = [sys.executable, "-m", "first"]
    return subprocess.run(line, cwd=folder, capture_output=True, text=True, check=True).stdout.split()


def test_the_module_headswap_imports_nothing_from_the_current_folder(traps: Path, tmp_path: Path) -> None:
    for name in imported_by_python_m(tmp_path / "first"):
        (traps / f"{name}.py").unlink(missing_ok=True)
    assert (traps / "typing.py").exists()
    assert (traps / "json.py").exists()
    done = subprocess.run([sys.executable, "-m", "headswap", "datasets"], capture_output=True, text=True)
    assert caught(traps) == ""
    assert done.returncode == 0, done.stderr


def test_with_the_safe_path_of_python_nothing_at_all_is_imported(traps: Path) -> None:
    done = subprocess.run([sys.executable, "-P", "-m", "headswap", "datasets"], capture_output=True, text=True)
    assert caught(traps) == ""
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_under_torchrun_too(traps: Path) -> None:
    line = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "1", "-m", "headswap", "datasets"]
    environment = os.environ | {"PYTHONSAFEPATH": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(line, env=environment, capture_output=True, text=True)
    assert caught(traps) == ""
    assert done.returncode == 0, done.stderr


def test_the_current_folder_in_pythonpath_is_kept(tmp_path: Path) -> None:
    set_trap(tmp_path, "json")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), HOME])}
    line = [sys.executable, "-m", "headswap", "datasets"]
    assert subprocess.run(line, env=environment, cwd=tmp_path, capture_output=True).returncode != 0
    assert caught(tmp_path) == "json "
