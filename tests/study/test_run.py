"""Running a study: processes, time limit, kills and resuming."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from headswap.core.errors import SettingError
from headswap.study.executors.job_queue import Outcome
from headswap.study.executors.local import thread_limits
from headswap.study.run import run_study
from study_fixture import (
    RecordingWatcher,
    done_here,
    sections_of,
)

BASELINES = {"arms": ("majority", "tfidf"), "budgets": ("40",), "seeds": 1}


def test_jobs_run_in_processes_and_a_second_call_runs_nothing(tmp_path: Path) -> None:
    given = sections_of(tmp_path, **BASELINES)
    seen = RecordingWatcher()
    study = run_study(out=tmp_path / "out", sections=given, jobs=2, watcher=seen)
    assert seen.ended == {"majority-40-seed1": None, "tfidf-40-seed1": None}
    assert all(job.is_done for job in study.plan.jobs.values())
    again = RecordingWatcher()
    assert run_study(out=tmp_path / "out", sections=given, watcher=again).outcome == Outcome()
    assert again.started == []


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a CUDA device")
def test_a_missing_device_is_refused_before_any_job(tmp_path: Path) -> None:
    given = sections_of(tmp_path)
    given["machine"] = {"device": "cuda"}
    with pytest.raises(SettingError, match="no CUDA device"):
        run_study(out=tmp_path / "out", sections=given)
    assert not (tmp_path / "out").exists()


def test_more_bases_than_seeds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"base_seeds is 4, more than seeds \(3\)"):
        run_study(out=tmp_path / "out", sections=sections_of(tmp_path, base_seeds=4))


def test_a_finished_job_keeps_its_bundle_and_no_checkpoints(tmp_path: Path) -> None:
    given = sections_of(tmp_path, arms=("scratch",), budgets=("40",), seeds=1)
    plan = done_here(tmp_path / "out", given)
    (job,) = [job for job in plan.jobs.values() if job.kind == "finetune"]
    names = {path.name for path in Path(job.folder).iterdir()}
    assert {"bundle", "predictions.npz", "result.json", "recipe.toml"} <= names
    assert "checkpoints" not in names, "a finished job is not resumed"


@pytest.mark.slow
def test_a_study_that_was_killed_is_resumed_and_ends_like_one_that_was_not(tmp_path: Path) -> None:
    """After SIGKILL during a fine-tuning run its jobs stop, and the second call finishes the study."""
    given = sections_of(tmp_path, arms=("scratch",), budgets=("220",), seeds=2)
    given["finetune"] = {"num_train_epochs": 12, "save_steps": 30}
    given["machine"] = {"device": "cpu"}
    recipe = tmp_path / "study.json"
    recipe.write_text(json.dumps({"sections": given}, default=list), encoding="utf-8")

    def start(out: Path) -> subprocess.Popen:
        code = (
            "import json, sys; from pathlib import Path; from headswap.study.run import run_study; "
            f"run_study(out=Path({str(out)!r}), sections=json.load(open({str(recipe)!r}))['sections'])"
        )
        return subprocess.Popen([sys.executable, "-c", code], env=os.environ | thread_limits(1))

    assert start(tmp_path / "whole").wait() == 0
    process = start(tmp_path / "killed")
    runs = tmp_path / "killed" / "runs"
    while process.poll() is None and not list(runs.glob("scratch-*/checkpoints/step-*")):
        time.sleep(0.05)  # until a fine-tuning has begun to save; no matter how long that takes
    process.kill()
    process.wait()
    finished = [folder for folder in runs.glob("scratch-*") if (folder / "result.json").exists()]
    assert len(finished) < 2, "it was killed before the end"
    assert start(tmp_path / "killed").wait() == 0
    for folder in runs.glob("scratch-*"):
        other = tmp_path / "whole" / "runs" / folder.name
        ours, theirs = (json.loads((path / "result.json").read_text()) for path in (folder, other))
        assert ours["test"] == theirs["test"]
    assert len(list(runs.glob("scratch-*"))) == 2


@pytest.mark.slow
def test_a_stopped_study_saves_its_jobs_and_names_them(tmp_path: Path) -> None:
    given = sections_of(tmp_path, arms=("scratch",), budgets=("220",), seeds=1)
    flags = [
        "--train", given["data"]["train"], "--test", given["data"]["test"], "--corpus", given["study"]["corpus"][0],
        "--arms", "scratch", "--budgets", "220", "--seeds", "1", "--max-length", "24", "--vocab-size", "300",
        "--finetune.num-train-epochs", "2000", "--device", "cpu", "--out", str(tmp_path / "out"),
    ]  # fmt: skip
    flags += [f"--{name.replace('_', '-')}={value}" for name, value in given["model"].items()]
    process = subprocess.Popen([sys.executable, "-m", "headswap", "study", *flags], stderr=subprocess.PIPE, text=True)
    runs = tmp_path / "out" / "runs"
    while process.poll() is None and not any("train_loss" in f.read_text() for f in runs.glob("*/metrics.jsonl")):
        time.sleep(0.05)  # until it has taken steps; no matter how long that takes
    process.send_signal(signal.SIGINT)
    _, err = process.communicate()
    assert process.returncode == 130, err
    assert "Stopped. Not finished: scratch-220-seed1" in err
    assert list(runs.glob("scratch-*/checkpoints/step-*"))
