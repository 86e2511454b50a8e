"""The folder of a study: its lock, and `--overwrite`, after which there is the old study or the new one."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headswap.core.errors import HeadswapError, SettingError
from headswap.study.run import run_study
from study_fixture import (
    sections_of,
    snapshot,
)

BASELINES = {"arms": ("majority", "tfidf"), "budgets": ("40",), "seeds": 1}


HOLDER = """
import fcntl, sys
with open(sys.argv[1], "w") as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    print("taken", flush=True)
    sys.stdin.read()
"""


VICTIM = """
import json, os, pathlib, shutil, signal, sys
import headswap.core.atomic_folder as folders
import headswap.study.setup.prepare as preparing
from headswap.study.run import run_study

out, moment = pathlib.Path(sys.argv[1]), sys.argv[3]
exchange, replace = folders.exchange, os.replace

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

def exchange_and_die(one, other):
    if not exchange(one, other):
        sys.exit(77)
    die()

def die_inside(path, *_, **__):
    (pathlib.Path(path) / "study.toml").unlink()
    die()

def die_at_the_second_rename(source, target):
    die() if target == out else replace(source, target)

if moment == "while it prepares":
    preparing.overlap_of_examples = die
elif moment == "before the replacement":
    folders._put_in_place = die
elif moment == "after the replacement":
    folders.exchange = exchange_and_die
elif moment == "while the old one is removed":
    shutil.rmtree = die_inside
elif moment == "between two renames":
    folders.exchange = lambda one, other: False
    os.replace = die_at_the_second_rename
run_study(out=out, sections=json.load(open(sys.argv[2])), overwrite=True)
"""


@contextmanager
def held(file: Path) -> Iterator[int]:
    """Another process holds a lock on the file."""
    pytest.importorskip("fcntl", reason="locks need fcntl, which Windows has not")
    command = [sys.executable, "-c", HOLDER, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "taken\n"
        yield holder.pid
        holder.kill()


def test_a_running_study_is_not_replaced(out: Path, given: dict[str, Any]) -> None:
    with held(out / ".lock"):
        before = snapshot(out)
        with pytest.raises(SettingError, match="is in use"):
            run_study(out=out, sections=given, overwrite=True)
        assert snapshot(out) == before


def test_a_study_whose_job_is_still_running_is_not_replaced(out: Path, given: dict[str, Any]) -> None:
    """The study was just killed; its job saves and stops, and would write into the new study."""
    (out / "logs").mkdir(exist_ok=True)
    with held(out / "logs" / "majority-40-seed1-12345678.lock"):
        before = snapshot(out)
        with pytest.raises(SettingError, match=r"is still running \(majority-40-seed1-12345678\)"):
            run_study(out=out, sections=given, overwrite=True)
        assert snapshot(out) == before


def test_inputs_inside_the_old_study_are_not_removed(out: Path, given: dict[str, Any]) -> None:
    before = snapshot(out)
    given["data"]["train"] = str(out / "data" / "train.jsonl")
    with pytest.raises(SettingError, match=r"would remove .*train\.jsonl, which this study reads"):
        run_study(out=out, sections=given, overwrite=True)
    assert snapshot(out) == before


def test_hidden_files_of_the_user_and_the_current_folder_are_not_removed(
    out: Path, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    (out / ".notes").write_text("of my own")
    before = snapshot(out)
    with pytest.raises(SettingError, match=r"would remove '\.notes'"):
        run_study(out=out, sections=given, overwrite=True)
    assert snapshot(out) == before
    (out / ".notes").unlink()
    monkeypatch.chdir(out / "data")
    with pytest.raises(SettingError, match="would remove the current folder"):
        run_study(out=out, sections=given, overwrite=True)
    assert (out / "report.md").exists()


def test_a_corpus_folder_that_holds_the_study_is_refused(out: Path, given: dict[str, Any]) -> None:
    """Its jobs would read the test set of the study as corpus."""
    given["study"]["corpus"] = (str(out.parent),)
    before = snapshot(out)
    for overwrite in (True, False):
        with pytest.raises(SettingError, match="is inside the corpus folder"):
            run_study(out=out, sections=given, overwrite=overwrite)
    assert snapshot(out) == before


@pytest.mark.parametrize("is_link", [False, True])
def test_a_successful_overwrite_replaces_the_study(
    tmp_path: Path, given: dict[str, Any], out: Path, is_link: bool
) -> None:
    place = out
    if is_link:
        place = tmp_path / "link"
        place.symlink_to(out)
    old_runs = {path.name for path in (out / "runs").iterdir()}
    given["study"]["budgets"] = ("60",)
    study = run_study(out=place, sections=given, overwrite=True)
    assert {Path(job.folder).parent for job in study.plan.jobs.values()} == {out / "runs"}
    assert all(job.is_done for job in study.plan.jobs.values())
    assert old_runs.isdisjoint(path.name for path in (out / "runs").iterdir())
    assert sorted(path.name for path in out.iterdir()) == [
        "data",
        "design.json",
        "logs",
        "plan.json",
        "runs",
        "study.toml",
    ]
    assert study.prepared.train == str(out / "data" / "train.jsonl")
    assert Path(study.prepared.train).is_file()
    assert place.is_symlink() == is_link
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    assert run_study(out=place, sections=given).outcome.done == [], "the same command finds it again"


def test_jobs_of_the_old_study_are_not_reused(out: Path, given: dict[str, Any]) -> None:
    study = run_study(out=out, sections=given, overwrite=True)
    assert [job.name for job in study.outcome.done] == ["majority-40-seed1"]


def test_the_lock_is_held_before_and_after_the_replacement(
    out: Path, given: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second study is refused while the first one prepares, and while it trains in its new folder."""
    pytest.importorskip("fcntl", reason="locks need fcntl, which Windows has not")
    import headswap.study.initialize as initializing

    refused = []

    def try_again(*_: Any) -> None:
        with pytest.raises(SettingError, match=rf"is in use \(process {os.getpid()} on"):
            run_study(out=out, sections=given, overwrite=True)
        refused.append((out / "report.md").exists())

    make_plan = initializing.make_plan
    monkeypatch.setattr(initializing, "make_plan", lambda *given, **more: [try_again(), make_plan(*given, **more)][1])
    run_study(out=out, sections=given, overwrite=True, on_preflight=try_again)
    assert refused == [True, False], "once next to the old study, once in the new one"
    assert not (out / ".lock").exists()


@pytest.mark.parametrize(
    ("moment", "is_old"),
    [
        ("while it prepares", True),
        ("before the replacement", True),
        ("after the replacement", False),
        ("while the old one is removed", False),
    ],
)
def test_a_kill_leaves_the_old_study_or_the_new_one(
    out: Path, given: dict[str, Any], moment: str, is_old: bool
) -> None:
    before = snapshot(out)
    given["study"]["budgets"] = ("60",)
    code = killed(out, given, moment)
    if code == 77:
        pytest.skip("this file system cannot exchange two folders; run on ext4, xfs, btrfs, overlay or tmpfs")
    assert code == -signal.SIGKILL
    now = snapshot(out)
    now.pop(".lock", None)  # held by nobody
    if is_old:
        assert now == before
    else:
        data = {f"data/{name}" for name in ("prepared.json", "test.jsonl", "train.jsonl", "unlabelled.jsonl")}
        assert set(now) == {"study.toml", "plan.json", "design.json", "data"} | data
        assert "-60-seed1" in str(now["plan.json"])
    study = run_study(out=out, sections=given, overwrite=is_old)
    assert [job.name for job in study.outcome.done] == ["majority-60-seed1"]
    assert [path.name for path in out.parent.iterdir() if path.name.startswith(".")] == [], "no leftovers"


@pytest.mark.parametrize("overwrite", [True, False])
def test_where_folders_cannot_be_exchanged_the_next_command_restores_the_old_study(
    out: Path, given: dict[str, Any], overwrite: bool
) -> None:
    before = snapshot(out)
    new = given | {"study": given["study"] | {"budgets": ("60",)}}
    assert killed(out, new, "between two renames") == -signal.SIGKILL
    assert not out.exists()
    with pytest.raises(HeadswapError, match="does not exist"):
        run_study(out=out, sections=given | {"data": {"train": "no", "test": "no"}}, overwrite=overwrite)
    assert snapshot(out) == before
    assert [path.name for path in out.parent.iterdir() if path.name.startswith(".")] == [], "no leftovers"


def killed(out: Path, sections: dict[str, Any], moment: str) -> int:
    """The exit code of an overwriting study that is killed at a moment."""
    file = out.parent / "sections.json"
    file.write_text(json.dumps(sections, default=list), encoding="utf-8")
    return subprocess.run([sys.executable, "-c", VICTIM, str(out), str(file), moment], check=False).returncode


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    given = sections_of(tmp_path, **BASELINES)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(SettingError, match=r"holds no study|which no study wrote"):
            run_study(out=tmp_path / "mine", sections=given, overwrite=overwrite)
    assert (tmp_path / "mine" / "thesis.txt").exists()


def test_two_studies_in_one_folder_at_once_are_refused(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl", reason="locks need fcntl, which Windows has not")
    (tmp_path / "out").mkdir()
    with (tmp_path / "out" / ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(SettingError, match="is in use"):
            run_study(out=tmp_path / "out", sections=sections_of(tmp_path, **BASELINES))
