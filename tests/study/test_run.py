"""A study as it is run: processes, failures, a limit of time, a kill and going on."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from headswap.core.errors import SettingError
from headswap.study.estimate import Estimator, look_ahead
from headswap.study.executor import Outcome, Scheduler, Watcher, cores, thread_limits
from headswap.study.plan import Job
from headswap.study.run import conduct
from study_fixture import done_here, planned, write_data

BASELINES = {"arms": ("majority", "tfidf"), "budgets": ("40",), "seeds": 1}


class Seen(Watcher):
    """Remembers what happened."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.ended: dict[str, str | None] = {}

    def on_start(self, job: Job) -> None:
        self.started.append(job.name)

    def on_end(self, job: Job, *, seconds: float, problem: str | None) -> None:
        self.ended[job.name] = problem


def sections(tmp_path: Path, **study: Any) -> dict[str, Any]:
    found = write_data(tmp_path / "files")
    found["study"] |= study
    return found


def scheduler(out: Path, watcher: Watcher, prepared: Any, *, parallel: int = 1) -> Scheduler:
    out.mkdir(exist_ok=True)
    estimator = Estimator(None, prepared)
    return Scheduler(out, estimator, parallel=parallel, threads=1, keep="bundles", watcher=watcher)


def test_jobs_run_in_processes_of_their_own_and_a_second_call_runs_nothing(tmp_path: Path) -> None:
    given = sections(tmp_path, **BASELINES)
    seen = Seen()
    study = conduct(out=tmp_path / "out", sections=given, jobs=2, watcher=seen)
    assert seen.ended == {"majority-40-seed1": None, "tfidf-40-seed1": None}
    assert all(job.is_done for job in study.plan.jobs.values())
    again = Seen()
    assert conduct(out=tmp_path / "out", sections=given, watcher=again).outcome == Outcome()
    assert again.started == []


def test_a_failed_job_is_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    given = sections(tmp_path, **BASELINES | {"arms": ("majority", "tfidf", "pretrained")})
    _, prepared, plan = planned(tmp_path / "out", given)
    base = next(job for job in plan.jobs.values() if job.kind == "pretrain")
    base.sections["training"]["max_length"] = 1  # as a user's setting that turns out wrong only when the job begins
    jobs = [job for job in plan.jobs.values() if job.kind != "tokenizer"]
    seen = Seen()
    outcome = scheduler(tmp_path / "out", seen, prepared).run(jobs)
    assert "training.max_length = 1 is not allowed" in str(seen.ended[base.name])
    assert seen.ended["pretrained-40-seed1"] == "what it stands on failed"
    assert (seen.ended["majority-40-seed1"], seen.ended["tfidf-40-seed1"]) == (None, None)
    assert len(outcome.failed) == 2
    assert len(outcome.done) == 2


def test_a_job_that_crashes_is_told_with_its_last_line(tmp_path: Path) -> None:
    _, prepared, plan = planned(tmp_path / "out", sections(tmp_path, **BASELINES))
    job = next(job for job in plan.jobs.values() if job.arm == "majority")
    job.sections["data"]["train"] = str(tmp_path / "gone.jsonl")
    seen = Seen()
    scheduler(tmp_path / "out", seen, prepared).run([job])
    assert "gone.jsonl does not exist" in str(seen.ended[job.name])
    assert "majority-40-seed1" in str(seen.ended[job.name]), "and where its log is"


def test_out_of_time_nothing_is_begun_and_what_is_left_out_is_named(tmp_path: Path) -> None:
    _, prepared, plan = planned(tmp_path / "out", sections(tmp_path, **BASELINES))
    seen = Seen()
    outcome = scheduler(tmp_path / "out", seen, prepared).run(plan.jobs.values(), deadline=time.monotonic())
    assert seen.started == []
    assert [job.name for job in outcome.left_out] == ["majority-40-seed1", "tfidf-40-seed1"]


def test_what_stands_on_a_job_that_was_left_out_is_left_out_too(tmp_path: Path) -> None:
    given = sections(tmp_path, arms=("pretrained",), budgets=("40",), seeds=1)
    _, prepared, plan = planned(tmp_path / "out", given)
    outcome = scheduler(tmp_path / "out", Seen(), prepared).run(plan.jobs.values(), deadline=time.monotonic())
    assert len(outcome.left_out) == 3
    assert not outcome.failed


def test_estimates_learn_from_jobs_that_have_finished(tmp_path: Path) -> None:
    _, prepared, plan = planned(tmp_path / "out", sections(tmp_path))
    tfidf = [job for job in plan.jobs.values() if job.arm == "tfidf"]
    estimator = Estimator(None, prepared)
    before = estimator.seconds(tfidf[0])
    estimator.learn(tfidf[0], before * 3)
    assert estimator.seconds(tfidf[0]) == pytest.approx(before * 3)
    assert look_ahead(tfidf, estimator, parallel=2, keep="bundles").seconds > before


def test_a_probe_gives_time_memory_and_disk(tmp_path: Path) -> None:
    _, prepared, plan = planned(tmp_path / "out", sections(tmp_path))
    probe = {
        "step_seconds": 0.1, "tokens_a_step": 200, "score_seconds": 0.001, "bytes_a_token": 4.0,
        "num_parameters": 1_000_000, "num_embedding_parameters": 500_000, "max_length": 24,
        "peak_memory_bytes": 500_000_000, "device": "1 CPU threads, fp32",
    }  # fmt: skip
    estimator = Estimator(probe, prepared)
    tuned = {job.labels: job for job in plan.jobs.values() if job.kind == "finetune"}
    # 2 epochs of 11 steps and of 3 steps, 3 x 44 and 3 x 40 evaluated texts, 60 test texts, 4 s to start.
    assert estimator.seconds(tuned[220]) == pytest.approx(4 + 22 * 0.1 + (3 * 44 + 60) * 0.001)
    assert estimator.seconds(tuned[40]) == pytest.approx(4 + 6 * 0.1 + (3 * 40 + 60) * 0.001)
    found = look_ahead(plan.jobs.values(), estimator, parallel=2, keep="bundles")
    assert found.memory_bytes == 10**9
    assert found.disk_bytes == 4 * 10**6 * (1 + 12 + 2 * 5)
    assert "26 jobs; about " in found.sentence()
    base = next(job for job in plan.jobs.values() if job.kind == "pretrain")
    base.sections["training"] |= {"max_steps": 10, "batch_size": 4, "max_length": 1_000}
    rows = {"packed": 1_000.0, "documents": prepared.corpus_bytes / 4.0 / prepared.num_rows["corpus"]}
    for layout, row_tokens in rows.items():
        base.sections["training"]["layout"] = layout
        assert estimator.seconds(base) == pytest.approx(4 + 10 * 4 * row_tokens * 0.1 / 200 * 2)


class Stopping(Seen):
    """Asks this process to stop as soon as the first job begins."""

    def on_start(self, job: Job) -> None:
        super().on_start(job)
        if len(self.started) == 1:
            os.kill(os.getpid(), signal.SIGTERM)


def test_asked_to_stop_nothing_of_a_later_stage_is_begun(tmp_path: Path) -> None:
    _, prepared, plan = planned(tmp_path / "out", sections(tmp_path))
    jobs = list(plan.jobs.values())
    assert len({job.stage for job in jobs}) > 2
    seen = Stopping()
    working = scheduler(tmp_path / "out", seen, prepared)
    outcome = working.run(jobs)
    assert outcome.was_stopped
    assert len(seen.started) == 1
    assert {job.id for job in outcome.left_out} == {job.id for job in jobs}
    again = working.run(jobs)  # as the study's own run after its probe was stopped
    assert again.was_stopped
    assert len(seen.started) == 1
    assert len(again.left_out) == len(jobs)


class Slow(Scheduler):
    """Its pre-training takes a hundred turns, every other job one."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.has_base = False
        self.before_a_base: list[str] = []

    def _start(self, job: Job, threads: int) -> Any:
        if job.stage == 2 and not self.has_base:
            self.before_a_base.append(job.name)
        return SimpleNamespace(job=job, turns=100 if job.kind == "pretrain" else 1)

    def _has_ended(self, item: Any, outcome: Outcome, is_closing: bool) -> bool:
        item.turns -= 1
        if not item.turns:
            self.has_base |= item.job.kind == "pretrain"
            outcome.done.append(item.job)
        return not item.turns


@pytest.mark.parametrize(("threads", "minutes", "waits"), [(1, None, False), (None, None, True), (1, 5.0, True)])
def test_what_needs_no_base_does_not_wait_for_it_where_threads_are_told_and_nobody_counts_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int | None, minutes: float | None, waits: bool
) -> None:
    monkeypatch.setattr("headswap.study.executor.POLL_SECONDS", 0)
    _, prepared, plan = planned(tmp_path / "out", sections(tmp_path))
    jobs = list(plan.jobs.values())
    (base,) = [job for job in jobs if job.kind == "pretrain"]
    base.sections["training"] |= {"max_minutes": minutes}
    free = [job.name for job in jobs if job.stage == 2 and base.id not in job.needs]
    assert 0 < len(free) < len([job for job in jobs if job.stage == 2])
    working = Slow(
        tmp_path / "out", Estimator(None, prepared), parallel=3, threads=threads, keep="bundles", watcher=Watcher()
    )
    done = [job.id for job in working.run(jobs).done]
    assert sorted(done) == sorted(plan.jobs)
    for job in jobs:
        assert all(done.index(need) < done.index(job.id) for need in job.needs), "what it stands on comes first"
    assert working.before_a_base == ([] if waits else free)
    assert working.goes_by_stages(jobs, deadline=None) == waits
    assert working.goes_by_stages(jobs, deadline=1.0)
    seconds = [
        look_ahead(jobs, working.estimator, parallel=3, keep="bundles", by_stages=by_stages).seconds
        for by_stages in (True, False)
    ]
    assert 0 < seconds[1] < seconds[0]


@pytest.mark.skipif(torch.cuda.is_available(), reason="here --device cuda is no mistake")
def test_a_device_that_is_not_there_is_told_once_and_before_anything_begins(tmp_path: Path) -> None:
    given = sections(tmp_path)
    given["machine"] = {"device": "cuda"}
    with pytest.raises(SettingError, match="no CUDA device"):
        conduct(out=tmp_path / "out", sections=given)
    assert not (tmp_path / "out").exists()


def test_a_budget_that_cannot_hold_every_class_is_refused_before_anything_is_trained(tmp_path: Path) -> None:
    given = sections(tmp_path, budgets=("2", "40"))
    with Path(given["data"]["train"]).open("a", encoding="utf-8") as file:
        file.writelines(json.dumps({"text": f"neither {number}", "label": "mixed"}) + "\n" for number in range(5))
    with pytest.raises(SettingError, match=r"budget of 2 labels cannot hold one of each of the 3 classes"):
        conduct(out=tmp_path / "out", sections=given)
    assert not (tmp_path / "out" / "runs").exists()


@pytest.mark.parametrize(
    ("told", "environment", "wanted"), [(None, "", 4), (None, "1", 1), (None, "64", 4), (3, "1", 3)]
)
def test_threads_are_those_that_are_told_or_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: int | None, environment: str, wanted: int
) -> None:
    monkeypatch.setattr("headswap.study.executor.cores", lambda: 8)
    monkeypatch.setenv("OMP_NUM_THREADS", environment)
    estimator: Any = None
    one = Scheduler(tmp_path, estimator, parallel=2, threads=told, keep="bundles", watcher=Watcher())
    assert one.threads_of(2) == wanted


def test_every_job_gets_its_part_of_the_cores() -> None:
    assert set(thread_limits(3).values()) == {"3"}
    assert cores() >= 1


def test_a_foreign_folder_is_refused_and_overwrite_removes_only_studies(tmp_path: Path) -> None:
    given = sections(tmp_path, **BASELINES)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(SettingError, match=r"holds no study|which no study made"):
            conduct(out=tmp_path / "mine", sections=given, overwrite=overwrite)
    assert (tmp_path / "mine" / "thesis.txt").exists()


def test_two_studies_in_one_folder_at_once_are_refused(tmp_path: Path) -> None:
    fcntl = pytest.importorskip("fcntl", reason="locks need fcntl, which Windows has not")
    (tmp_path / "out").mkdir()
    with (tmp_path / "out" / ".lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        with pytest.raises(SettingError, match="is in use"):
            conduct(out=tmp_path / "out", sections=sections(tmp_path, **BASELINES))


def test_more_bases_than_seeds_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="base_seeds is 4, more than the 3 seeds"):
        conduct(out=tmp_path / "out", sections=sections(tmp_path, base_seeds=4))


def test_a_limit_of_time_is_shared_with_pretraining_that_has_none(tmp_path: Path) -> None:
    from headswap.core.settings import load_recipe
    from headswap.study.config import StudyRecipe
    from headswap.study.run import _with_limit

    recipe = load_recipe(StudyRecipe, None, {"study": {"base_seeds": 2}})
    assert _with_limit(recipe, 10).pretrain.max_minutes == 2.0
    assert _with_limit(recipe, None).pretrain.max_minutes is None
    own = load_recipe(StudyRecipe, None, {"pretrain": {"max_steps": 5}})
    assert _with_limit(own, 10) == own


def test_bundles_of_a_study_can_be_given_up(tmp_path: Path) -> None:
    given = sections(tmp_path, arms=("scratch",), budgets=("40",), seeds=1)
    plan = done_here(tmp_path / "out", given)
    (job,) = [job for job in plan.jobs.values() if job.kind == "finetune"]
    names = {path.name for path in Path(job.folder).iterdir()}
    assert {"bundle", "predictions.npz", "result.json", "recipe.toml"} <= names
    assert "checkpoints" not in names, "there is nothing left to go on with"


@pytest.mark.slow
def test_a_study_that_was_killed_goes_on_and_ends_like_one_that_was_not(tmp_path: Path) -> None:
    """SIGKILL in the middle of a fine-tuning: its processes stop by themselves, and the second start finishes."""
    given = sections(tmp_path, arms=("scratch",), budgets=("220",), seeds=2)
    given["finetune"] = {"num_train_epochs": 12, "save_steps": 30}
    given["machine"] = {"device": "cpu"}
    recipe = tmp_path / "study.json"
    recipe.write_text(json.dumps({"sections": given}, default=list), encoding="utf-8")

    def start(out: Path) -> subprocess.Popen:
        code = (
            "import json, sys; from pathlib import Path; from headswap.study.run import conduct; "
            f"conduct(out=Path({str(out)!r}), sections=json.load(open({str(recipe)!r}))['sections'])"
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
    assert len(finished) < 2, "it was killed on its way"
    assert start(tmp_path / "killed").wait() == 0
    for folder in runs.glob("scratch-*"):
        other = tmp_path / "whole" / "runs" / folder.name
        ours, theirs = (json.loads((path / "result.json").read_text()) for path in (folder, other))
        assert ours["test"] == theirs["test"]
    assert len(list(runs.glob("scratch-*"))) == 2


@pytest.mark.slow
def test_asked_to_stop_a_study_saves_and_says_so(tmp_path: Path) -> None:
    given = sections(tmp_path, arms=("scratch",), budgets=("220",), seeds=1)
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
    assert "Stopped: left out scratch-220-seed1" in err
    assert list(runs.glob("scratch-*/checkpoints/step-*"))
