"""Python files in the current folder are data: nothing that headswap starts imports them."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import headswap as hs
from headswap.core import current_folder
from headswap.core.current_folder import HOME, leave_out_current_folder, new_python
from headswap.study.run import run_study
from study_fixture import MACHINE, SHAPE, write_data
from tiny import write_labelled

INSTALLED = ("torch", "numpy", "pydantic", "tokenizers", "safetensors", "cyclopts", "rich", "sklearn", "headswap_base")


@pytest.fixture
def traps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: a Python file for every module of the standard library, which leaves a mark and raises."""
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


def test_the_traps_catch_a_python_without_protection(traps: Path) -> None:
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
    study = run_study(out=traps / "out", sections=sections)
    assert caught(traps) == ""
    assert study.outcome.failed == {}
    assert all(job.is_done for job in study.plan.jobs.values())


def imported_by_python_m(folder: Path) -> list[str]:
    """What `python -m` imports before the module that it is to run, with the current folder first on sys.path."""
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


def test_with_the_safe_path_of_python_no_exception_is_left(traps: Path) -> None:
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


def test_a_part_of_pythonpath_that_names_the_current_folder_stays(tmp_path: Path) -> None:
    set_trap(tmp_path, "json")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), HOME])}
    line = [sys.executable, "-m", "headswap", "datasets"]
    assert subprocess.run(line, env=environment, cwd=tmp_path, capture_output=True).returncode != 0
    assert caught(tmp_path) == "json "


@pytest.mark.parametrize(
    ("path", "is_safe", "left"),
    [
        (["HERE", "HERE", "x"], False, ["HERE", "x"]),
        (["", "x"], False, ["x"]),
        (["HERE", "x"], True, ["HERE", "x"]),
        (["x", "HERE"], False, ["x", "HERE"]),
        ([], False, []),
    ],
)
def test_only_what_python_put_first_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: list[str], is_safe: bool, left: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    given = [str(tmp_path) if part == "HERE" else part for part in path]
    python = SimpleNamespace(path=given, flags=SimpleNamespace(safe_path=is_safe))
    monkeypatch.setattr(current_folder, "sys", python)
    leave_out_current_folder()
    assert [("HERE" if part == str(tmp_path) else part) for part in python.path] == left


def test_a_checkout_that_headswap_was_imported_from_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    assert new_python("-c", "pass") == [sys.executable, "-P", "-c", "pass"]
    monkeypatch.chdir(HOME)
    assert new_python("-c", "pass") == [sys.executable, "-c", "pass"]
    python = SimpleNamespace(path=[HOME, "x"], flags=SimpleNamespace(safe_path=False))
    monkeypatch.setattr(current_folder, "sys", python)
    leave_out_current_folder()
    assert python.path == [HOME, "x"]


def test_a_current_folder_that_was_removed_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert new_python("-c", "pass") == [sys.executable, "-P", "-c", "pass"]
